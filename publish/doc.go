// Package publish is a client that publishes to a feed on a server, such as "feedctl serve
// --writable".
//
// [Client.Publish] is for a service that publishes events as they happen. It sends entities in
// batches, and retries requests if the network or the server fails, after the delay that the server
// asks for. Retrying is safe: each entity has a Content-ID, by which the server recognizes entities
// that are already in the newest pages of the feed.
//
// [Import] is for an input with a beginning and an end. The faster the input, the larger the
// batches. With a [State], an import continues after a crash.
//
// A program with access to the store of a feed needs no server: see package producer.
package publish
