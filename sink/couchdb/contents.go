package couchdb

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/sink"
)

var (
	// ErrChanged means that a consumer wrote to a database while it was being read.
	ErrChanged = errors.New("the consumer wrote to the database while it was read: try again when it is idle; after a crash, run the consumer first")
	// ErrRevisions means that a database has documents, but none with a Content-ID, such as a database that
	// a feed of "feedctl bridge couchdb --revs" was replicated to.
	ErrRevisions = errors.New("no document has a Content-ID to compare: revisions from \"feedctl bridge couchdb --revs\" are stored unchanged; " +
		"\"feedctl restore\" into a new database compares it with such a feed")
)

// Contents holds the documents that a consumer wrote, and the consumer's position.
type Contents struct {
	target  *target
	at      checkpoint
	remarks []string
	shared  bool
}

// OpenContents opens, for reading, the database that s names; the other fields of the configuration are from
// c. It writes nothing. A consumer may have the database open, and is not delayed; but if it writes while the
// documents are being read, reading them fails with [ErrChanged], since CouchDB has no way to read all
// documents as of one moment.
func OpenContents(ctx context.Context, c couchdb.Config, s sink.Spec) (*Contents, error) {
	if err := s.CheckParams("name"); err != nil {
		return nil, err
	}
	c.URL, c.Attempts = s.Path, cmp.Or(c.Attempts, 1) // pages are retried as a whole
	db, err := couchdb.Open(c)
	if err != nil {
		return nil, fmt.Errorf("read sink %s: %w: %w", sink.Redact(s.String()), sink.ErrSpec, err)
	}
	opened := &Contents{target: &target{
		db: db, name: cmp.Or(s.Params.Get("name"), DefaultName), log: db.Logger(),
		retryBudget: retryBudget{openTries, backoff.Backoff{Min: minPause, Max: maxPause}},
	}}
	err = opened.target.retry(ctx, openTries, func(ctx context.Context) error {
		err := opened.open(ctx)
		if errors.Is(err, couchdb.ErrNotFound) {
			return fmt.Errorf("there is no consumer %q, or no database: %w", opened.target.name, fs.ErrNotExist)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read sink couchdb:%s: %w", db.URL(), err), opened.Close())
	}
	return opened, nil
}

// open reads the position, and finds out whether there are other consumers.
func (c *Contents) open(ctx context.Context) (err error) {
	if c.at, err = c.target.read(ctx); err != nil {
		return err
	}
	if c.at.Pending != nil {
		return ErrChanged
	}
	c.remarks = []string{
		"documents are compared by Content-ID: an edit that leaves the member \"feedctl\" as it was is not found",
		"documents without the member \"feedctl\" are ignored: if the feed has the key of one, the key is reported as missing",
	}
	shared, known, err := c.isShared(ctx)
	if !known {
		c.remarks = append(c.remarks, "the server does not tell whether other consumers write to this database: if they do, their documents are reported as extra")
	}
	c.shared = shared
	return err
}

// isShared reports whether there are checkpoints of other consumers. known is false if the server does not
// list the documents in _local.
func (c *Contents) isShared(ctx context.Context) (shared, known bool, err error) {
	const prefix = "_local/feedctl-sink-"
	var answer struct {
		Rows []struct {
			ID string `json:"id"`
		} `json:"rows"`
	}
	q := couchdb.Request{Path: "_local_docs", Query: url.Values{"startkey": {`"` + prefix + `"`}, "endkey": {`"` + prefix + `~"`}}}
	err = c.target.db.JSON(ctx, q, &answer)
	switch couchdb.Status(err) {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return false, false, nil
	}
	own := "_local/" + c.target.local()
	for _, row := range answer.Rows {
		if strings.HasPrefix(row.ID, prefix) && logSuffix.ReplaceAllString(row.ID, "") != own {
			shared = true
		}
	}
	return shared, true, err
}

// check returns [ErrChanged] if a consumer has written since open: a consumer records a commit in the
// checkpoint before it writes the first document.
func (c *Contents) check(ctx context.Context) error {
	now, err := c.target.read(ctx)
	if err != nil {
		return err
	}
	if now.Pending != nil || now.Step != c.at.Step || now.Position.ContentID != c.at.Position.ContentID {
		return ErrChanged
	}
	return nil
}

// Position returns the position of the consumer.
func (c *Contents) Position() feed.Position { return c.at.Position }

// About describes the documents.
func (c *Contents) About() sink.About { return sink.About{Shared: c.shared, Remarks: c.remarks} }

// Close releases connections.
func (c *Contents) Close() error {
	c.target.db.CloseIdleConnections()
	return nil
}

// Rows ignores the range and yields a row for each document that a sink wrote, in no particular order. A
// document that other clients change meanwhile may be yielded again; its last row is the right one.
func (c *Contents) Rows(ctx context.Context, _, _ string) iter.Seq2[sink.Row, error] {
	return func(yield func(sink.Row, error) bool) {
		if err := c.each(ctx, func(row sink.Row) bool { return yield(row, nil) }); err != nil {
			yield(sink.Row{}, fmt.Errorf("read sink couchdb:%s: %w", c.target.db.URL(), err))
		}
	}
}

func (c *Contents) each(ctx context.Context, use func(sink.Row) bool) error {
	var ours, others int64
	var first held // of the page before
	for at := json.RawMessage(nil); ; {
		var found []held
		var next json.RawMessage
		err := c.target.retry(ctx, c.target.tries, func(ctx context.Context) (err error) {
			found, next, err = c.target.page(ctx, at)
			return err
		})
		if err != nil {
			return err
		}
		if bytes.Equal(next, at) {
			break
		}
		if len(found) > 0 {
			if found[0] == first {
				return fmt.Errorf("%w: _changes begins again with document %q: does a proxy remove the parameter since?", couchdb.ErrMalformed, first.id)
			}
			first = found[0]
		}
		at = next
		for _, d := range found {
			if d.deleted {
				continue
			}
			row, ok := d.row()
			if !ok {
				others++
				continue
			}
			if ours++; !use(row) {
				return nil
			}
		}
	}
	if ours == 0 && others > 0 {
		return ErrRevisions
	}
	return c.target.retry(ctx, c.target.tries, c.check)
}
