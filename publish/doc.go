// Package publish is a client that publishes to a feed on a server, such as "feedctl serve
// --writable".
//
// [Client.Publish] is for a service that publishes events as they happen. It sends entities in
// batches, and retries requests if the network or the server fails, after the delay for which the
// server asks. Retrying is safe: the server recognizes entities that are already on the newest
// pages of the feed by their Content-IDs.
//
// [Import] is for an input with a beginning and an end. The faster the input, the larger the
// batches. With a [State], an import can be continued after a crash.
//
// A program that has access to the store of a feed does not need a server: see package producer.
package publish
