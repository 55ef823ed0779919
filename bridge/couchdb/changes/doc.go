// Package changes follows the changes feed of a CouchDB database (CouchDB
// documentation, "/{db}/_changes" and "Changes Feeds") and does not lose its
// place, whatever the server and the network do.
//
// A sequence is opaque JSON: it is stored as it was received, and never
// compared. CouchDB may go back to any earlier place, even to the beginning,
// and send rows again: what identifies a row is its document id and revisions.
// So each row comes at least once, and who reads them has to know what it has
// got.
//
//	f, err := changes.New(db, changes.Options{Feed: changes.Continuous, Since: position})
//	...
//	defer f.Close()
//	for {
//		b, err := f.Next(ctx)
//		...
//		// handle b.Rows, and store b.Seq with them or after them; then:
//		f.Confirm(b)
//	}
package changes
