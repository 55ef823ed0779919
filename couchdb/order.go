package couchdb

import "fmt"

// An order yields documents in the order they were asked for. CouchDB sends
// them so; PouchDB Server groups the revisions of a document. What comes too
// early is held back.
type order struct {
	left  []IDRev // that are not yielded yet
	early map[IDRev][]*Doc
	ended bool // no more is wanted, or an error was yielded
	yield func(*Doc, error) bool
}

// take takes the next document, or the error that ends them. It returns false if
// no more is wanted.
func (o *order) take(d *Doc, err error) bool {
	if err != nil {
		o.ended = true
		return o.yield(nil, err)
	}
	if id := (IDRev{d.ID, d.Rev}); d.Stream == nil && len(o.left) > 0 && id != o.left[0] {
		o.early[id] = append(o.early[id], d)
		return true
	}
	if !o.give(d) {
		return false
	}
	for len(o.left) > 0 {
		held := o.early[o.left[0]]
		if len(held) == 0 {
			break
		}
		o.early[o.left[0]] = held[1:]
		if !o.give(held[0]) {
			return false
		}
	}
	return true
}

// give yields a document, which is the next one.
func (o *order) give(d *Doc) bool {
	if len(o.left) > 0 {
		o.left = o.left[1:]
	}
	o.ended = !o.yield(d, nil)
	return !o.ended
}

// close lets go of what nobody wants any more. That something is still wanted is
// an error.
func (o *order) close() {
	if !o.ended && len(o.left) > 0 {
		o.yield(nil, fmt.Errorf("read documents: %w: nothing about revision %s of document %q", ErrMalformed, o.left[0].Rev, o.left[0].ID))
	}
	for _, held := range o.early {
		for _, d := range held {
			d.Body.Close()
		}
	}
}
