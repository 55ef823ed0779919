// Package kinto is an HTTP client for servers of Kinto (API version 1.x): their root, collections,
// records, batches, and the list of changes in all collections that Remote Settings publishes.
//
// Records are never decoded and encoded again: a [Row] contains the bytes that the server sent.
// Lists are read row by row, and each page is requested with the token in Next-Page; the rest of
// that URL is ignored, because behind a proxy it may name another origin.
//
// Repeatable requests are retried with increasing pauses. The header fields Backoff and Retry-After
// delay all clients that share [Limits], and the text of an Alert field is logged once. Credentials are
// sent only to the origin of the server, and never appear in errors or logs.
//
// A stamp is the value of last_modified: milliseconds since 1970, unique within a collection unless
// clients choose their own (Kinto API documentation, "Server timestamps").
package kinto
