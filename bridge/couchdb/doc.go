// Package couchdb publishes the changes of a CouchDB database to a feed: it is the source half
// of the CouchDB Replication Protocol, with a feed as the target. The parts shared with other
// bridges are in package bridge.
//
// The body of an entity is the document as the server sent it, byte for byte, with the type
// application/json or, with [Multipart], multipart/related. A tombstone is a DELETE, with a body only if
// the tombstone has members that its user added. If resolving a conflict makes a revision the winner, and
// the losing revision follows it in the feed, the winner is published again as <ID@REV;after=OTHER>;
// otherwise the feed would end with the losing revision.
//
// CouchDB may send changes again from any position (after the loss of a node, or when shards
// move), and sequences cannot be compared. The bridge writes the replication log, the document
// _local/<replication id> in the source, as the protocol requires. The log shows the operators of
// the source who reads the source, and lets the bridge detect that the source was restored from a backup.
//
// A document may change between its row in the changes feed and the request for the document.
// In that case, the revision of the row is published if the source still has it, and the next revision is
// published with its own row. Otherwise its successors are published instead (protocol, "Fetch Changed
// Documents": latest=true).
package couchdb
