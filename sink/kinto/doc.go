// Package kinto is a sink that writes a feed into a collection of a Kinto server, on any of its
// backends. The collection is created if it does not exist; its bucket must.
//
// # Records
//
// The id of a record is the key, Content-Location without its percent-encoding, if servers accept
// that as an id: up to 255 letters, digits, hyphens and underscores after a letter or digit. Any
// other key, and one that begins with "fc-", is replaced with "fc-" and the base32 of its SHA-256.
//
// A PUT replaces the record, a DELETE deletes it, and a PATCH changes its body; the content type and
// the headers remain those of the PUT. A record has
//
//   - the members of the body, if it is a JSON object of up to 1 MiB that servers store: without the
//     members id, last_modified, deleted, schema and feedctl, without NUL, and with numbers in the
//     range of float64;
//   - the member "feedctl": an object with contentId, lastModified, contentType, headers (each name
//     to the array of its values), key (keyBase64, if it is not text) if that is not the id, and
//     body (bodyBase64, if it is not text) if the body is not in the members, or if servers would
//     return its numbers in another notation, such as 1.50 or 1e3.
//
// Servers do not keep the order of members, the escapes of strings, or white space.
//
// An entity from package bridge/kinto is recognized by its ETag, which is the stamp in its body, and
// by the id in its body, which is its key. It becomes the record that it was, without a member
// feedctl and with a new stamp, unless it is a record that some servers cannot store, such as one with NUL. A
// bridge copies records, not what they mean to their server: a "deleted" of true or a "schema" is a member like
// any other.
//
// The sink attaches no files (plugin kinto-attachment). The member attachment of a record is copied like
// others, and a file that is an entity becomes a record like others.
//
// # Exactly once
//
// The position in the feed is kept in the collection feedctl-positions of the same bucket, which is created, so
// the user needs the right to write the bucket or both collections. A batch is written in chunks of up to
// batch_max_requests-1 changes and 1 MiB. A chunk takes two requests to /batch: the first announces in the
// position what the chunk writes, and reads which records exist; the second has the changes and the new position,
// and is one transaction on PostgreSQL. A server answers each part separately, and the sink reads each answer:
// after 409 or 5xx in any of them, none counts, and what is missing is written again. Each change names the stamp
// of the record that it replaces. A record that others have changed in the meantime is overwritten.
//
// Opening the sink compares what was announced with the collection. If all of it is there, the
// position advances: the server has carried out a request of a consumer that was killed; the sink waits
// up to a second for that. If a chunk was written, and a record of it is missing or different, the sink
// goes back to the position before the chunk. Records are recognized by their contentId. For those
// without one, such as copies of records of Kinto, the position has a digest of their members, except
// for id, last_modified and schema, which servers may set. A record that a PATCH has changed is changed once in a
// chunk, and has the contentId of the PATCH, so that the PATCH is not applied twice.
//
// # What the server refuses
//
// Records that the server refuses with status 400, 413 or 422 (a schema, a size) are logged and counted, and not
// retried; the consumer continues with the next record. A chunk that is refused as a whole is halved until the
// refused record is found. The same holds for a record on which the server fails repeatedly with 5xx, if it has
// since made other changes of the chunk; otherwise the server is unavailable. Errors about all records (401, 403,
// 404, 405, 410, or any error of the position) end the run, and nothing is lost. Transient errors are retried.
// Backoff and Retry-After are obeyed by the client, package kinto.
//
// # One consumer at a time
//
// A consumer is identified by its collection and its name. A second consumer of the same user on the same host
// fails with [sink.ErrLocked], because a file is locked. A second consumer on another host takes the sink over:
// it becomes the owner in the position and increases its epoch, and the next chunk of the first fails with
// [ErrTaken]. A process that was stopped for more than 5 s while it announced a chunk announces it again.
//
// A server may carry out a request late, after its client has given up, been killed, or been replaced by another.
// The conditions of the request keep it from changing what has been written since, but not from creating a record
// that has been deleted since. So a record that such a request may create is deleted 10 s after the request
// failed, or after the next consumer opened the sink, at the earliest. A request that is carried out later than
// that may create the record again; the next change of its key corrects it.
//
// # Limits
//
// A record may be up to 48 MiB, and is in memory while it is being written; servers may allow less.
// Large bodies are kept in a temporary file ($TMPDIR) until then. A PATCH reads its record when it
// is applied: one request for each record that the batch has not changed yet.
package kinto
