// Package kinto publishes the records of a Kinto collection to a feed. It is a source of package
// bridge, which describes the entities.
//
// A record becomes a PUT of the JSON object as the server sent it, with its id and stamp
// (last_modified); the stamp is the ETag of the entity. The tombstone of a record that is in the feed
// becomes a DELETE; the tombstone of an unknown record is dropped.
//
// # What a collection does not show
//
// Changes are read oldest first, from the highest stamp in the feed. That is not enough:
//
//   - On PostgreSQL, a record gets its stamp before its transaction is committed, so it can appear
//     after records with higher stamps. As long as there are changes, those of the last two windows
//     ([Config.Window]) are read again once per window. Changes that the index knows are dropped.
//   - A record can be created with a stamp in the past, tombstones can be purged, and a collection
//     that is deleted and created again has no tombstones. So the ids and stamps of all records are
//     compared with the feed once per period, and whenever the stamp, the metadata or the number of
//     records of the collection says that something is missing ([Config.Reconcile]).
//   - A server that was restored from a backup continues with new changes. So the newest row that was
//     read, or a later version of it, must be listed again; otherwise all records are compared.
//   - A user who may not read the collection gets a list of some records, or none. So the right to read
//     is checked before changes are published. Its loss ends a run, and never deletes anything.
//   - A live record can look like a tombstone, so the record is requested. During the first fill, such
//     records are listed at the end instead.
//
// Records that are gone without a tombstone become a DELETE whose ETag is the last stamp with
// ";gone=" and the time at which the loss was found, in milliseconds.
package kinto
