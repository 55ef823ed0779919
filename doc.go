// Package feedctl has no code. It lists the packages of this module, which publish, serve and
// consume data feeds over plain HTTP as specified by datareplication.io. The command is cmd/feedctl.
//
// docs/library.md has three complete programs, docs/life-of-an-entity.md follows an entity
// through the packages, and docs/glossary.md explains the terms.
//
// # Formats
//
// These packages do no I/O:
//
//   - page: the multipart codec
//   - feed, snapshot: entities, operations, times, links and positions; the index of a snapshot
//   - layout: names, keys in a store and paths of URLs
//   - pageindex: the list of a feed's pages
//   - digest: hashes of the state of a feed, for comparing copies
//
// # Stores
//
//   - storage: the interface of a store; storage/storagetest is its contract as a test suite
//   - storage/file, storage/s3, storage/postgres, storage/memory: the drivers
//   - storage/stores: opens any store by its URL
//   - storage/fault, storage/observe: a wrapper that fails on demand, and one that reports each
//     operation
//   - chain, feedstore: read the feeds and snapshots of a store
//   - pagecache: a cache of pages on disk
//
// # Publishing
//
//   - producer: writes feeds
//   - snapshot/snapshots: writes, lists, reads and deletes the snapshots in a store
//   - publish: a client that publishes to a server
//   - input: reads entities from lines of JSON, multipart and directories
//   - outbox: publishes from PostgreSQL transactions
//   - bridge, bridge/couchdb, bridge/kinto: publish the changes of databases; bridge/couchdb/changes
//     follows a changes feed; couchdb and kinto are clients for the servers
//   - snapshot/fold: writes a snapshot or a state digest of the last state of each key of a feed;
//     digest/digests keeps state digests in a store
//
// # Serving and consuming
//
//   - server: an http.Handler that serves the feeds and snapshots of a store
//   - readers: middleware that keeps track of who reads the feeds of a server, and how far behind each
//     reader is
//   - console: web pages about feeds, entities, readers and jobs
//   - consumer: reads feeds and snapshots, in order and exactly once; consumer/fromstore reads them
//     in a store
//   - sink/pgxsink, sink/sqlsink: write to your tables, in a transaction with the position
//   - sink/postgres, sink/sqlite, sink/couchdb, sink/kinto, sink/jsonl, sink/dir: write to their own
//     tables, databases and files
//   - sink, sink/sinks: the names of sinks; opening any sink by its name
//   - sink/patch: applies patches
//   - sink/sinktest: the contract of a sink as a test suite
//
// # Operating
//
//   - verify: checks a feed or snapshot against the specification
//   - doctor: diagnoses a store, or the connection to a feed
//   - repair: makes a feed that lost objects usable again
//   - replica: copies feeds and snapshots from store to store
//   - reconcile: compares a sink with the state of its feed, and repairs it
//   - restore: writes the state of a feed at a point in time into a new sink
//   - erase: removes what a feed says about some keys
//   - retention, retention/maintain: how much of a feed is kept; making snapshots and pruning
//     accordingly
//   - jobs, jobs/kinds, jobs/watch, jobs/api: schedule any of these on one or several nodes; what jobs
//     can do; noticing changes; the HTTP API
package feedctl
