// Package bridge contains the common parts of bridges from a database to a feed. A bridge follows
// the changes of its source, determines which of them the feed does not have, fetches and publishes
// those, and records what has been published. The package of a source, such as bridge/couchdb,
// reads the source and builds entities; the rest is here.
//
// # Entities
//
// Each change becomes one entity. A revision of a document is in the feed once:
//
//   - Content-Location is the document's id, percent-encoded (feed.EncodeKey).
//   - ETag is the revision.
//   - Content-ID is <ID@REV>, both percent-encoded, see [Version.ContentID].
//
// # Exactly once
//
// The position in the source is the producer's checkpoint. It is stored with the same conditional
// write as the entities that it belongs to, so neither is ever stored without the other. A source
// may send changes again, from any position. So an index on disk records which revisions are in the
// feed. If the index is lost, it is filled from the feed.
//
// Documents that cannot be published are put into a quarantine in the store of the feed, and the
// bridge continues.
package bridge
