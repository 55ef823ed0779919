package kinto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/sink"
)

var (
	// ErrChanged means that a consumer wrote to a collection while it was being read.
	ErrChanged = errors.New("the consumer wrote to the collection while it was read: try again when it is idle; after a crash, run the consumer first")
	// ErrCopies means that a collection has records, but none with a Content-ID, such as a collection that
	// a feed of "feedctl bridge kinto" was consumed into.
	ErrCopies = errors.New("no record has a Content-ID to compare: records from \"feedctl bridge kinto\" are stored unchanged; " +
		"\"feedctl verify --against\" compares them with such a feed")
)

// Contents holds the records that a consumer wrote, and the consumer's position.
type Contents struct {
	target  *target
	at      state
	remarks []string
	shared  bool
}

// OpenContents opens, for reading, the collection that s names; the other fields of the configuration are
// from c. It writes nothing. A consumer may have the collection open, and is not delayed; but if it writes
// while the records are being read, reading fails with [ErrChanged], since Kinto has no way to read all
// records as of one moment.
func OpenContents(ctx context.Context, c kinto.Config, s sink.Spec) (*Contents, error) {
	if err := Check(s); err != nil {
		return nil, err
	}
	c.URL, c.Attempts = s.Path, cmp.Or(c.Attempts, 1) // pages are retried as a whole
	c.MaxRecord = cmp.Or(c.MaxRecord, 6*maxDigest)
	to, err := kinto.Open(c)
	if err != nil {
		return nil, fmt.Errorf("read sink %s: %w: %w", sink.Redact(s.String()), sink.ErrSpec, err)
	}
	budget := retryBudget{tries: maxTries, pauses: backoff.Backoff{Min: minPause, Max: maxPause}}
	opened := &Contents{target: newTarget(to, cmp.Or(s.Params.Get("name"), DefaultName), loggerOf(c), budget)}
	if err := opened.target.retry(ctx, opened.open); err != nil {
		return nil, errors.Join(fmt.Errorf("read sink kinto:%s: %w", to.URL(), err), opened.Close())
	}
	return opened, nil
}

// open reads the position, and finds out whether there are other consumers.
func (c *Contents) open(ctx context.Context) (err error) {
	c.at, err = c.target.read(ctx)
	switch {
	case errors.Is(err, kinto.ErrNotFound):
		return fmt.Errorf("there is no consumer %q: %w", c.target.name, fs.ErrNotExist)
	case err != nil:
		return err
	case c.at.unsettled():
		return ErrChanged
	}
	c.remarks = []string{
		"records are compared by Content-ID: an edit that leaves the member \"feedctl\" as it was is not found",
		"records without the member \"feedctl\" are ignored: if the feed has the key of one, the key is reported as missing",
	}
	var known bool
	if c.shared, known, err = c.isShared(ctx); !known {
		c.remarks = append(c.remarks, "the server does not tell whether other consumers write to this collection: if they do, their records are reported as extra")
	}
	return err
}

// unsettled reports whether a chunk has been announced that may have been written in part.
func (s state) unsettled() bool { return s.Step != "" && !s.Done }

// isShared reports whether there are positions of other consumers. known is false if the user may not list
// them.
func (c *Contents) isShared(ctx context.Context) (shared, known bool, err error) {
	name := string(jsonscan.AppendText(nil, c.target.to.Name()))
	q := kinto.Query{Filter: url.Values{"collection": {name}}, Fields: []string{"id"}, Limit: 2}
	own := c.target.stateID()
	_, err = c.target.positions.List(ctx, q, func(r kinto.Row) error {
		shared = shared || r.ID != own
		return nil
	})
	switch kinto.Status(err) {
	case http.StatusUnauthorized, http.StatusForbidden:
		return false, false, nil
	}
	return shared, true, err
}

// check returns an error unless the records are those of the position. A consumer announces a chunk in the
// position before it writes the first record.
func (c *Contents) check(ctx context.Context) error {
	now, err := c.target.read(ctx)
	if err != nil {
		return err
	}
	if now.unsettled() || now.Step != c.at.Step || now.Position.ContentID != c.at.Position.ContentID {
		return ErrChanged
	}
	return nil
}

// Position returns the position of the consumer.
func (c *Contents) Position() feed.Position { return c.at.Position }

// About describes the records.
func (c *Contents) About() sink.About { return sink.About{Shared: c.shared, Remarks: c.remarks} }

// Close releases connections.
func (c *Contents) Close() error {
	c.target.server.CloseIdleConnections()
	return nil
}

// Rows ignores the range and yields a row for each record that a sink wrote, in no particular order. A record
// that other clients change meanwhile may be yielded again; its last row is the right one.
func (c *Contents) Rows(ctx context.Context, _, _ string) iter.Seq2[sink.Row, error] {
	return func(yield func(sink.Row, error) bool) {
		err := c.each(ctx, func(row sink.Row) bool { return yield(row, nil) })
		if err != nil {
			yield(sink.Row{}, fmt.Errorf("read sink kinto:%s: %w", c.target.to.URL(), err))
		}
	}
}

func (c *Contents) each(ctx context.Context, use func(sink.Row) bool) error {
	var ours, others int64
	q := kinto.Query{Sort: kinto.OldestFirst, Fields: FieldsOfCopies()}
	for {
		var found []sink.Row
		var foreign int64
		var page kinto.Page
		err := c.target.retry(ctx, func(ctx context.Context) (err error) {
			found, foreign = found[:0], 0
			page, err = c.target.to.List(ctx, q, func(r kinto.Row) error {
				if row, ok := contentsRow(r); ok {
					found = append(found, row)
				} else {
					foreign++
				}
				return nil
			})
			return err
		})
		if err != nil {
			return err
		}
		ours, others = ours+int64(len(found)), others+foreign
		for _, row := range found {
			if !use(row) {
				return nil
			}
		}
		if q.Token = page.Next; q.Token == "" {
			break
		}
	}
	if ours == 0 && others > 0 {
		return ErrCopies
	}
	return c.target.retry(ctx, c.check)
}

// contentsRow returns what a record says about the entity that it was written from. It returns false for a
// record of another client, and for one that has been copied to another id.
func contentsRow(r kinto.Row) (sink.Row, bool) {
	m, _, err := contents(r.Data)
	if err != nil || m == nil {
		return sink.Row{}, false
	}
	key := m.keyOf(r.ID)
	return sink.Row{Key: key, ContentID: m.ContentID, Version: strconv.FormatInt(r.Stamp, 10)}, recordID(key) == r.ID
}
