// Package couchdb turns the changes of a CouchDB database into a feed: the source
// half of the CouchDB Replication Protocol, with a feed as its target. Package bridge has what it
// shares with other bridges.
//
// The body of an entity is the document as the server wrote it, byte for byte, of the type
// application/json; or multipart/related, see [Multipart]. A tombstone is a DELETE, which has a body
// only if the tombstone says more than that it is one. When a conflict is resolved so that a
// revision wins that was in the feed before another one, it is published once more as
// <ID@REV;after=OTHER>: without it, the feed would end with what is gone.
//
// CouchDB may begin again anywhere, even at the beginning (after the loss of a node, or when
// shards move), and sequences cannot be compared. The replication log, the document
// _local/<replication id> in the source, is written as the protocol wants it, so that the source's
// operators see who reads, and a source that was restored from a backup is recognized.
//
// A document may change between the row that tells of it and the request for it. Then the
// revision of the row is published if the source still has it, and the next one with its
// own row. Otherwise what it has become is published in its place (protocol, "Fetch Changed
// Documents": latest=true).
package couchdb
