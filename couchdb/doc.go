// Package couchdb is an HTTP client for one database of Apache CouchDB (2.x,
// 3.x), of Cloudant or of PouchDB Server, as a replicator needs it: what the
// CouchDB Replication Protocol (version 3) asks of either side, and nothing
// else. Package bridge/couchdb/changes reads the changes feed with it.
//
// The bytes of documents are never decoded and encoded again: numbers keep
// their digits, and members their order. No document, row or attachment is held
// in memory because of its size: what is larger than [Config.MaxWhole] is in a
// temporary file, or streamed from the connection.
//
// Requests that may be repeated are repeated, with growing pauses, and all
// clients that share [Limits] slow down together when a host asks for it.
// Credentials go to the origin of the database only, and never into an error or
// a log.
package couchdb
