package kinto

import (
	"bytes"
	"context"
	"fmt"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/kinto"
)

// How much of a list is one piece.
const (
	pieceRows  = 250
	pieceBytes = 1 << 18
)

// A listing sends the rows of a list, page by page, as pieces.
type listing struct {
	*reader
	pieces chan<- *bridge.Piece
	begun  func(kinto.Page) error // called with the header of the first page
	// older reads newest first: the position is the lowest stamp.
	older bool
	pages int // how many to read at most; 0: all

	first kinto.Page
	next  string // token of the page after those that were read
	top   int64  // the highest stamp in the list
	seen  bool   // the list has the row of the position

	rows  []kinto.Row // of the next piece
	ids   map[string]bool
	bytes int // of rows
}

// read reads the list. Each page is requested while the rows of the previous page are being read,
// so that the server prepares it meanwhile.
func (l *listing) read(ctx context.Context, q kinto.Query) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read changes: %w", err)
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	q.Limit = l.limit
	next := l.request(ctx, q)
	defer func() {
		cancel()
		if page, err := next(); err == nil {
			page.Close()
		}
	}()
	for n := 1; ; n++ {
		page, err := next()
		if err != nil {
			return err
		}
		if n == 1 {
			l.first = page.Page
			if err := l.begun(page.Page); err != nil {
				return err
			}
		}
		last := page.Next == "" || n == l.pages
		if !last {
			q.Token, q.IfNoneMatch = page.Next, 0
			next = l.request(ctx, q)
		}
		err = page.Rows(func(row kinto.Row) error { return l.row(ctx, row) })
		if sent := l.flush(ctx); err == nil { // complete rows of an incomplete page are valid
			err = sent
		}
		if err != nil {
			return err
		}
		l.next = page.Next
		// A list that grows while it is being read might never end, so once a row is newer than the
		// stamp of the first page, the rest is left for the next list.
		if last || !l.older && l.first.Stamp != 0 && l.top > l.first.Stamp {
			return nil
		}
	}
}

// request requests a page, and returns a function that waits for its header.
func (l *listing) request(ctx context.Context, q kinto.Query) func() (*kinto.Listing, error) {
	var page *kinto.Listing
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if page, err = l.bridge.config.Source.Request(ctx, q); err == nil {
			l.run.count(func(c *bridge.Progress) { c.Requests++ })
		}
	}()
	return func() (*kinto.Listing, error) {
		<-done
		return page, err
	}
}

// row adds a row to the next piece.
func (l *listing) row(ctx context.Context, row kinto.Row) error {
	if l.ids[row.ID] || len(l.rows) >= pieceRows || len(l.rows) > 0 && l.bytes+len(row.Data) > pieceBytes {
		if err := l.flush(ctx); err != nil {
			return err
		}
	}
	if l.ids == nil {
		l.ids = make(map[string]bool)
	}
	l.top = max(l.top, row.Stamp)
	l.seen = l.seen || row.ID == l.at.ID
	l.ids[row.ID] = true
	l.bytes += len(row.Data)
	row.Data = bytes.Clone(row.Data) // a copy, so that it is freed with its entity
	l.rows = append(l.rows, row)
	return nil
}

// flush sends the rows as a piece.
func (l *listing) flush(ctx context.Context) error {
	if len(l.rows) == 0 {
		return nil
	}
	rows, to := l.rows, l.at
	l.rows, l.bytes = nil, 0
	clear(l.ids)
	last := rows[len(rows)-1]
	switch {
	case l.older:
		to.Tail = min(to.Tail, last.Stamp)
	case last.Stamp >= to.Since:
		to.Since = last.Stamp
		if l.seen || to.ID == "" { // otherwise that row is still to be found
			to.ID, l.seen = last.ID, true
		}
	}
	filling := l.at.Reconciled == 0
	p := l.at.piece(to)
	p.Publish = func(ctx context.Context) error {
		l.run.count(func(c *bridge.Progress) { c.Rows += int64(len(rows)) })
		if l.older {
			return l.run.publishOlder(ctx, rows)
		}
		return l.run.publishRows(ctx, rows, filling)
	}
	if err := l.send(ctx, l.pieces, p); err != nil {
		return err
	}
	l.at = to
	return nil
}
