// Package changes follows the changes feed of a CouchDB database (CouchDB documentation,
// "/{db}/_changes" and "Changes Feeds"). After a failure of the server or the network, it continues
// from its position.
//
// A sequence is opaque JSON: it is stored as received, and never compared. CouchDB may return to any
// earlier position, even to the beginning, and send rows again. So each row is delivered at least
// once, and the caller must recognize repeated rows by their document ids and revisions.
//
//	f, err := changes.New(db, changes.Options{Feed: changes.Continuous, Since: position})
//	...
//	err = f.Follow(ctx, func(b *changes.Batch) error {
//		defer b.Close()
//		// handle b.Rows, and store b.Seq with them or after them
//	})
package changes
