package couchdb

import "fmt"

// An order yields documents in the order in which they were requested. CouchDB sends them in this
// order; PouchDB Server groups the revisions of a document. Documents that come too early are held
// back.
type order struct {
	left  []IDRev // not yielded yet
	early map[IDRev][]*Doc
	ended bool // yield returned false, or an error was yielded
	yield func(*Doc, error) bool
}

// take takes the next document, or the error that ends the iteration. It returns false if the
// iteration has ended.
func (o *order) take(d *Doc, err error) bool {
	if err != nil {
		o.ended = true
		return o.yield(nil, err)
	}
	if id := (IDRev{d.ID, d.Rev}); d.Stream == nil && len(o.left) > 0 && id != o.left[0] {
		o.early[id] = append(o.early[id], d)
		return true
	}
	for {
		o.left = o.left[min(1, len(o.left)):]
		if o.ended = !o.yield(d, nil); o.ended || len(o.left) == 0 {
			return !o.ended
		}
		held := o.early[o.left[0]]
		if len(held) == 0 {
			return true
		}
		d, o.early[o.left[0]] = held[0], held[1:]
	}
}

// close closes the documents held back. If the iteration has not ended and documents are missing,
// it yields an error.
func (o *order) close() {
	if !o.ended && len(o.left) > 0 {
		o.yield(nil, fmt.Errorf("read documents: %w: revision %s of document %q is missing from the response", ErrMalformed, o.left[0].Rev, o.left[0].ID))
	}
	for _, held := range o.early {
		for _, d := range held {
			d.Body.Close()
		}
	}
}
