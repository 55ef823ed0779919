// Package couchdb turns the changes of a CouchDB database into a feed: the source
// half of the CouchDB Replication Protocol, with a feed as its target.
//
// # Entities
//
// Each change becomes one entity, and a revision of a document is in the feed once:
//
//   - Content-Location is the document's id, percent-encoded (feed.EncodeKey).
//   - ETag is the revision: "3-0f1e".
//   - Content-ID is <ID@REV>, both percent-encoded; of an id that is too long for that,
//     "sha256:" and its SHA-256 in hex. When a conflict is resolved so that a revision
//     wins that was in the feed before another one, it is published once more as
//     <ID@REV;after=OTHER>: without it, the feed would end with what is gone.
//   - A document is a PUT, and a tombstone a DELETE.
//   - The body is the document as the server wrote it, byte for byte, of the type
//     application/json; or multipart/related, see [Multipart]. A DELETE has a body only
//     if the tombstone says more than that it is one.
//
// # Exactly once
//
// The position in the source is the producer's checkpoint: it is stored by the same
// conditional write as the entities that it is about, so there is no moment at which one
// is there without the other. CouchDB may begin again anywhere, even at the beginning
// (after the loss of a node, or when shards move), and sequences cannot be compared.
// So an index on disk knows which revisions the feed holds. It is made from the feed, and
// is filled from it when it is lost.
//
// The replication log, the document _local/<replication id> in the source, is written as
// the protocol wants it, so that the source's operators see who reads. It is not read to
// find the start, and a source that does not let us write is none the worse for it.
//
// # What changes while it is read
//
// A document may change between the row that tells of it and the look at it. Then the
// revision of the row is published if the source still has it, and the next one with its
// own row. If the source has it no more, what it has become is published in its place
// (protocol, "Fetch Changed Documents": latest=true).
package couchdb
