package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/problem"
	multipart "github.com/feedctl/feedctl/page"
)

// An opened is a page of a feed that has been opened for reading.
type opened struct {
	feed   *feedstore.Feed
	newest *chain.Page
	floor  int64

	page   *chain.Page
	body   io.ReadCloser
	reader *multipart.Reader
}

// openPage opens page n of a feed.
func (c *Console) openPage(ctx context.Context, name string, n int64) (*opened, error) {
	f, newest, floor, err := c.config.Feeds.Look(ctx, name)
	if err != nil {
		return nil, err
	}
	switch {
	case n < floor:
		return nil, fmt.Errorf("page %d of feed %q: %w (the oldest is %d)", n, name, chain.ErrPruned, floor)
	case n > newest.Number:
		return nil, fmt.Errorf("page %d of feed %q: %w (the newest is %d)", n, name, chain.ErrNoPage, newest.Number)
	}
	o := &opened{feed: f, newest: newest, floor: floor}
	return o, o.open(ctx, n)
}

// open opens page n, which is between the floor and the newest page.
func (o *opened) open(ctx context.Context, n int64) (err error) {
	if n == o.newest.Number {
		o.page, o.body, _, err = o.feed.OpenNewest(ctx, o.newest, 0, -1)
	} else {
		o.page, o.body, err = o.feed.Open(ctx, n, 0, -1)
	}
	if err != nil {
		return err
	}
	whole := o.page.Whole(o.body)
	if o.reader == nil {
		o.reader = multipart.NewReader(whole, o.page.Boundary, multipart.ReaderOptions{MaxWhole: maxBody})
	} else {
		o.reader.Reset(whole, o.page.Boundary)
	}
	return nil
}

// close closes the page. It may be opened again.
func (o *opened) close() { _ = o.body.Close() } // only read

// parts yields the entities of the page that have not been read yet, in order.
func (o *opened) parts() iter.Seq2[*multipart.Part, error] {
	return func(yield func(*multipart.Part, error) bool) {
		for part, err := range o.reader.Parts() {
			if err != nil {
				err = fmt.Errorf("read page %d of feed %q: %w", o.page.Number, o.feed.Name(), err)
			}
			if !yield(part, err) {
				return
			}
		}
	}
}

// part returns entity i of the page, from 0. It is valid until the page is closed.
func (o *opened) part(i int) (*multipart.Part, error) {
	for part, err := range o.parts() {
		if err != nil || part.Index == i {
			return part, err
		}
	}
	return nil, problem.New(http.StatusNotFound, "no-entity", "Page %d has entities from 0 to %d, and no entity %d.", o.page.Number, o.page.Entities-1, i)
}

// row returns what a list shows of an entity of the page.
func (o *opened) row(part *multipart.Part) entityRow {
	row := newEntityRow(o.page, part.Index, part.Header)
	if part.Stream == nil {
		row.Size = int64(len(part.Body))
	}
	return row
}

// keyOf returns the key of an entity.
func keyOf(h multipart.Header) string {
	e := feed.Entity{ContentLocation: string(h.Get("Content-Location"))}
	return e.Key()
}

// verify reads the page to its end, which verifies it. The error matches [chain.ErrCorrupt] if it is damaged.
func (o *opened) verify() error {
	_, err := io.Copy(io.Discard, o.body)
	return err
}

// An entityRef says where an entity is.
type entityRef struct {
	Feed  string
	Page  int64
	Index int // on the page, from 0
}

// URL returns the relative URL of the page of the entity.
func (e entityRef) URL() string { return e.url("entity") }

// DownloadURL returns the relative URL of the body.
func (e entityRef) DownloadURL() string { return e.url("body") }

// HistoryURL returns the relative URL of the history of the key.
func (e entityRef) HistoryURL() string { return e.url("history") }

func (e entityRef) url(path string) string {
	return path + "?" + url.Values{"feed": {e.Feed}, "n": {strconv.FormatInt(e.Page, 10)}, "i": {strconv.Itoa(e.Index)}}.Encode()
}

// errRef means that a URL does not say where an entity is.
var errRef = problem.New(http.StatusBadRequest, "no-entity", "The address needs a feed, the number n of a page, and the number i of an entity on it, from 0.")

// parseRef parses the query of the URL of an entity.
func parseRef(r *http.Request) (ref entityRef, err error) {
	query := r.URL.Query()
	ref.Feed = query.Get("feed")
	ref.Page, err = strconv.ParseInt(query.Get("n"), 10, 64)
	index, indexErr := strconv.Atoi(query.Get("i"))
	if ref.Index = index; errors.Join(err, indexErr) != nil || ref.Page < 1 || index < 0 {
		return ref, errRef
	}
	return ref, nil
}
