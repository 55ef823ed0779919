// Package couchdb is a sink that writes a feed into a database of Apache CouchDB
// (2.x, 3.x), of Cloudant or of PouchDB Server. The database is created if it does
// not exist.
//
// # Feeds that come from CouchDB
//
// An entity that package bridge/couchdb has made is known by its ETag, which is a
// revision, and by the _id and _rev in its body. If it has _revisions too, it is
// stored as it is, the way CouchDB's replicator does it: _revs_diff tells what the
// database has not got yet, and _bulk_docs with new_edits=false stores it;
// documents above 1 MiB, and those in multipart/related above 64 KiB or with
// compressed attachments, are streamed one by one.
// So a database goes through a feed unchanged: bodies, revision trees with their
// conflicts, tombstones and attachments. To apply an entity again changes nothing.
// PouchDB Server gets text that CouchDB has compressed decompressed, since it does
// not know that. Design documents are stored too, if the feed has them: their
// functions then run in the database. Credentials without the rights of an
// administrator keep them out.
//
// Without _revisions, such a document is written as a change (below), under its
// own id, with the attachments that it brings along. Stubs of attachments are left
// out.
//
// # Other feeds
//
// The id of a document is the key: Content-Location without its percent-encoding. A
// key that cannot be an id ("_x", "..", control characters, bytes that are not
// UTF-8, more than 4,096 bytes when percent-encoded, "feedctl:" at its start) is
// percent-encoded behind "feedctl:", or replaced by its SHA-256 if that is too long.
//
// A PUT replaces the document, a DELETE deletes it, and a PATCH changes its body; the
// content type and the headers remain those of the PUT. A document has
//
//   - the members of the body, if it is a JSON object of up to 1 MiB without a member
//     "feedctl" or one with "_" at its start, which CouchDB refuses;
//   - otherwise, the body in the attachment "body"; and also if servers would give the
//     object back in another spelling, like 1.50, 1e3 or \u00e9 (only white space
//     between tokens is not kept);
//   - the member "feedctl": an object with contentId, lastModified, contentType,
//     headers (each name to the array of its values), key (keyBase64, if it is not
//     UTF-8) if that is not the id, and body, which is "attachment" if it is there.
//
// # Exactly once
//
// The position in the feed is kept in the database, in _local/feedctl-sink-NAME, where
// operators also find how many documents were written and refused, and which were
// refused last. CouchDB has no transactions. So the changes of a batch are put into a
// log first, also in _local, each with the revision that it has to follow, and the
// position is moved when all are written. What is interrupted in between is ended by
// the next one who opens the sink, before it says where it is. A change that has
// been written is known by its contentId, so it is not written again. A change above
// 256 KiB is not logged, but written alone, with a position of its own. The log takes
// as much traffic again as the documents themselves; revisions need none.
//
// A document that others have changed in the meantime is overwritten: the feed has the
// last word.
//
// # What the database refuses
//
// Documents that it forbids (by a validation function, whatever that throws, or for lack of
// rights), that are too large, or whose attachments it misses, are logged and counted, and not
// retried (protocol, "Upload Batch of Changed Documents"); the feed goes on. So are those that
// the server fails on with status 500, alone and several times, while it takes other writes. What is
// wrong with all of them (401, 404) ends the run, with nothing lost. What may
// pass, such as a restart of the server, is tried again.
//
// # A database that is replaced
//
// If the database is deleted and created again while the sink is open, or restored from
// a backup, the next commit fails with [ErrLost]: what was written before may be missing.
// Whoever opens the sink again begins where the database is, or at the feed's beginning.
// A new database is known by its instance_start_time, which CouchDB has from 3.3 on, and
// by the checkpoint that it lacks. With older servers, one that is replaced between the
// first and the last request of a commit is not noticed.
//
// # One consumer at a time
//
// A consumer is known by its database and its name. A second one of the same user on the
// same host is refused with [sink.ErrLocked], by a lock on a file. One on another host
// takes the sink over: the first finds out with its next commit, which fails with
// [ErrTaken]. CouchDB cannot do better, as it compares no revisions of documents in
// _local. A commit of the first that overlaps with this may even take the sink back, so
// that it is the second that fails. Each document is written on top of the revision
// that was looked up before, so an older state does not replace a newer one unnoticed,
// and whoever goes on brings the documents to what the feed says.
//
// Consumers with different names may write to one database. Feeds that did not come from
// CouchDB must not have keys in common then.
//
// # Limits
//
// Large bodies are kept in a temporary file ($TMPDIR) until they are written. A document
// may be as large as the server allows (CouchDB: max_document_size, 8 MB), and so may
// an attachment (max_attachment_size). A PATCH reads its document when it is applied:
// one request for each document that the batch has not changed yet.
package couchdb
