// Package couchdb is an HTTP client for databases of Apache CouchDB (2.x, 3.x), Cloudant or
// PouchDB Server. It implements the requests that the CouchDB Replication Protocol (version 3)
// requires of a replicator, and those that report which databases of a server have changed
// ([Host]). Package bridge/couchdb/changes uses it to read the changes feed.
//
// Documents are never decoded and encoded again: numbers keep their digits, and members their
// order. Documents, rows and attachments larger than [Config.MaxWhole] are not held in memory; they
// are put into a temporary file, or streamed from the connection.
//
// Repeatable requests are retried with growing pauses, and all clients that share [Limits] slow
// down together when a host asks for it. Credentials are sent only to the origin of the database,
// and never appear in errors or logs.
package couchdb
