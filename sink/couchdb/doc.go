// Package couchdb is a sink that writes a feed into a database of Apache CouchDB (2.x, 3.x), of
// Cloudant or of PouchDB Server. The database is created if it does not exist.
//
// # Feeds that come from CouchDB
//
// An entity from package bridge/couchdb is recognized by its ETag, which is a revision, and by the
// _id and _rev in its body. If it has _revisions too, it is stored unchanged, as CouchDB's replicator
// does: _revs_diff returns which revisions the database does not have, and _bulk_docs with
// new_edits=false stores them. Documents above 1 MiB, and those in multipart/related above 64 KiB or
// with compressed attachments, are streamed one by one. So a feed replicates a database unchanged:
// bodies, revision trees with their conflicts, tombstones and attachments. Attachments that CouchDB
// has compressed are decompressed for PouchDB Server, which does not support them. Design documents
// are stored too, if the feed has them: their functions then run in the database. To keep them out,
// use credentials without administrator rights.
//
// Without _revisions, a document is written as a change (below), under its own id, with the
// attachments that are in the entity. Attachment stubs are omitted.
//
// # Other feeds
//
// The id of a document is the key: Content-Location without its percent-encoding. A key that cannot
// be an id ("_x", "..", control characters, bytes that are not UTF-8, more than 4,096 bytes when
// percent-encoded, "feedctl:" at its start) is percent-encoded with the prefix "feedctl:", or
// replaced with its SHA-256 if the result is too long.
//
// A PUT replaces the document, a DELETE deletes it, and a PATCH changes its body; the content type
// and the headers remain those of the PUT. A document has
//
//   - the members of the body, if it is a JSON object of up to 1 MiB without a member "feedctl" or
//     one with "_" at its start, which CouchDB refuses;
//   - otherwise, the body in the attachment "body"; the attachment is also added if servers would
//     return the object in another notation, such as 1.50, 1e3 or \u00e9 (only white space between
//     tokens is not kept);
//   - the member "feedctl": an object with contentId, lastModified, contentType, headers (each name
//     to the array of its values), key (keyBase64, if it is not UTF-8) if that is not the id, and
//     body, which is "attachment" if there is one.
//
// # Exactly once
//
// The position in the feed is kept in the database, in _local/feedctl-sink-NAME, with the numbers of
// documents written and refused, and the last refusals. CouchDB has no transactions. So the changes
// of a batch are first written to a log, also in _local, each with the revision that it replaces,
// and the position advances when all are written. Opening the sink completes an interrupted commit.
// A change that has already been written is recognized by its contentId. A change above 256 KiB, or
// sent as multipart/related, is not logged, but written alone, with its own position. The log is
// compressed; revisions are not logged. A document that others have changed in the meantime is
// overwritten.
//
// In a database that had no documents when the consumer began, documents are created without looking up
// revisions as long as most of them are new; documents that exist already conflict, and are then replaced.
//
// # What the database refuses
//
// Documents that a validation function rejects, that the user has no right to write, that are too large, or
// whose attachments are missing, are logged and counted, and not retried (protocol, "Upload Batch of Changed
// Documents"); the consumer continues with the next document. The same holds for a document on which the
// server repeatedly fails with status 500 while it accepts other writes. Errors about all documents (401,
// 404) end the run, and nothing is lost. Transient errors, such as a restart of the server, are retried.
//
// # A database that is replaced
//
// If the database is deleted and created again while the sink is open, or restored from a backup, the next
// commit fails with [ErrLost]. The next consumer to open the sink begins at the position in the database, or
// at the beginning of the feed if there is none. A new database is recognized by its instance_start_time,
// which CouchDB has had since version 3.3, and by its missing checkpoint. With older servers, a replacement
// between the first and the last request of a commit is not detected.
//
// # One consumer at a time
//
// A consumer is identified by its database and its name. A second consumer of the same user on the
// same host fails with [sink.ErrLocked], because a file is locked. A second consumer on another host
// takes the sink over, and the next commit of the first fails with [ErrTaken]. CouchDB cannot prevent
// this, because it does not compare revisions of documents in _local. If a commit of the first
// overlaps with the takeover, the second may fail instead. Each write names the revision that it
// replaces, so an older state does not silently replace a newer one, and the consumer that continues
// brings the documents to the state of the feed.
//
// Consumers with different names may write to one database. Feeds that do not come from CouchDB must
// then have no keys in common.
//
// # Limits
//
// Large bodies are kept in a temporary file ($TMPDIR) until they are written. The server limits the
// size of documents (CouchDB: max_document_size, 8 MB) and attachments (max_attachment_size). A
// PATCH reads its document when it is applied: one request for each document that the batch has not
// changed yet.
package couchdb
