// Package bridge holds what all bridges from a database to a feed share. A bridge follows the
// changes of its source, finds out which of them the feed does not have, fetches these, publishes
// them, and settles: it notes what is in the feed for good. The package of a source, such as
// bridge/couchdb, reads the source and makes entities; the rest is here.
//
// # Entities
//
// Each change becomes one entity, and a revision of a document is in the feed once:
//
//   - Content-Location is the document's id, percent-encoded (feed.EncodeKey).
//   - ETag is the revision.
//   - Content-ID is <ID@REV>, both percent-encoded, see [Version.ContentID].
//
// # Exactly once
//
// The place in the source is the producer's checkpoint: it is stored by the same conditional write
// as the entities that it belongs to, so neither is ever there without the other. A source may send
// changes again, from any place. So an index on disk knows which revisions the feed holds. It is
// made from the feed, and filled from the feed when it is lost.
//
// What cannot be published as it is goes into a quarantine beside the feed, and the rest is
// published.
package bridge
