// Package publish is a client that publishes to a feed on a server, as "feedctl serve --writable"
// runs one.
//
// [Client.Publish] is for a service that publishes as things happen. It sends entities in batches,
// and repeats a request that the network or the server fails, after the time that the server asks
// for. That is safe: each entity has a Content-ID, by which the server recognizes what it has in
// the newest pages of the feed.
//
// [Import] is for an input with a beginning and an end. It publishes it in batches that are as
// large as the input is fast and, with a [State], continues after a crash where it was.
//
// A program that has the store of a feed needs no server: see package producer.
package publish
