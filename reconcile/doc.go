// Package reconcile compares what a sink has with the state of its feed, and repairs the sink.
//
// A consumer that has read a feed knows that it received everything. It does not know what has happened to the
// sink since: rows may have been changed by hand, a backup restored, or deletions missed because of a gap. [Run]
// reads the sink once, in the order of the keys, and compares it range by range with a state digest of the feed
// (package digest). Only nodes and leaves that differ are requested.
//
//	report, err := reconcile.Run(ctx, reconcile.Config{
//		Client: client, URL: feedURL, Digest: &digest.Reader{Root: root, Objects: objects},
//		Open:   func(ctx context.Context) (reconcile.Contents, error) { return sqlite.OpenContents(ctx, spec) },
//	})
//
// # Positions
//
// A digest describes the feed at one position, and the sink is at another. The rows and the position of the sink
// are read at the same moment. If the sink is ahead, the entities between the two positions are read from the
// feed: they determine what the sink must have for their keys. If the sink is behind, the error is [ErrBehind].
//
// # What is compared
//
// A row with a sum is equal if and only if its key, content type and body are those of the feed. Some sinks do not
// keep the body as it was published. Their rows are compared by Content-ID or, without one, only by key; the
// report counts them, and its Remarks say why.
//
// # Repair
//
// With [Config.Sink] the rows that differ are written again, and those that the feed does not have are deleted.
// The caller has opened the sink as a consumer does, so no consumer can run meanwhile. Nothing is written before
// everything has been compared and the number of deletions is known to be within [Config.MaxDeletes]. The rows
// that are written come from the feed or its snapshot, and have the sums that the sink must have. A batch of rows
// is one transaction that leaves the position as it is, and changes nothing if one of its rows has changed since
// it was compared: such a row is left to the next run. In CouchDB, which has no transactions, and in Kinto, which
// may have none, each document or record is written on its own, and replaces only the revision that was compared.
// At the end, the repaired ranges are compared again.
//
// A key is deleted only if it is missing from a leaf whose hash was verified. A digest that is damaged, incomplete
// or wrong is an error, and nothing is written.
package reconcile
