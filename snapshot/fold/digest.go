package fold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
)

// Digest writes a state digest of the feed as it is now (see package digest), but no snapshot. If
// the feed does not exist, the error matches [consumer.ErrNotFound]. If c.Table is set, only leaves
// with changed rows are computed again.
func Digest(ctx context.Context, store storage.Store, name string, c Config) (result *digests.Result, err error) {
	err = fold(ctx, store, name, c, func(file string, c Config, at *snapshot.FeedPosition) (err error) {
		result, err = writeDigest(ctx, store, name, file, c, at, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// writeDigest writes a digest of the table, which has the state of the feed at the given position,
// and removes old digests. The index is that of a snapshot of the same state, or nil if there is
// none.
func writeDigest(ctx context.Context, store storage.Store, name, file string, c Config, at *snapshot.FeedPosition, index *snapshot.Index) (_ *digests.Result, err error) {
	leaves, err := openLeaves(ctx, file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, leaves.close()) }()
	rows, err := openRows(ctx, file, c.Version != nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.close()) }()
	d := &digester{leaves: leaves, rows: rows, progress: c.Digesting}
	head := digest.Root{Feed: relative(*at), Versions: c.Version != nil}
	if index != nil {
		head.Snapshot = up + layout.SnapshotIndexPath(c.Name, index.ID)
	}
	write := func() (*digests.Result, error) {
		return digests.Write(ctx, store, name, digests.Config{Base: leaves.base}, func(ctx context.Context, w *digests.Writer) (*digest.Root, error) {
			root := head
			root.Tree, err = d.build(ctx, w)
			return &root, err
		})
	}
	result, err := write()
	if errors.Is(err, digests.ErrBase) {
		leaves.base = ""
		result, err = write()
	}
	if err == nil {
		err = leaves.keep(result.ID)
	}
	if err != nil {
		return nil, err
	}
	if _, err := digests.Collect(ctx, store, name); err != nil && c.Logger != nil { // the digest is valid even if this fails
		c.Logger.Warn("cannot remove old state digests", "feed", name, "error", err)
	}
	return result, nil
}

// up is the relative path from the URL of a digest's root to the root of the server.
const up = "../.."

// relative returns p with paths relative to the URL of the root of a digest.
func relative(p snapshot.FeedPosition) snapshot.FeedPosition {
	p.URL = up + p.URL
	if p.Page != "" {
		p.Page = up + p.Page
	}
	return p
}

// A digester computes the digest of a table from the rows of the table and the clean leaves of the
// last digest.
type digester struct {
	leaves   *leaves
	rows     *rows
	progress func(keys int64)
	summer   digest.Summer
	keys     int64
	reported time.Time
}

func (d *digester) build(ctx context.Context, w *digests.Writer) (digest.Tree, error) {
	d.keys = 0
	l := d.leaves
	if err := l.begin(w.Has); err != nil {
		return digest.Tree{}, fmt.Errorf("read leaves of the last state digest: %w", err)
	}
	b := digest.NewBuilder(ctx, w, func(leaf digest.Child) error {
		d.report(leaf.Count)
		return l.add(leaf)
	})
	if l.ended {
		if err := d.scan(b, ""); err != nil {
			return digest.Tree{}, err
		}
	}
	for !l.ended {
		if l.dirty {
			if err := d.scan(b, l.at.From); err != nil {
				return digest.Tree{}, err
			}
			continue
		}
		if err := b.Reuse(l.at); err != nil {
			return digest.Tree{}, err
		}
		if err := l.next(); err != nil {
			return digest.Tree{}, err
		}
	}
	return b.Finish()
}

// scan adds the rows from a key on to the digest. It stops at the start of a clean leaf of the last
// digest, which becomes the current leaf, or at the end of the table.
func (d *digester) scan(b *digest.Builder, from string) error {
	l := d.leaves
	err := d.rows.each(from, func(r *row) error {
		for !l.ended && l.at.From < r.key {
			if err := l.next(); err != nil {
				return err
			}
		}
		if !l.ended && !l.dirty && l.at.From == r.key && b.Cuts(r.key) {
			return errStop
		}
		entry, err := d.entry(r)
		if err != nil {
			return err
		}
		return b.Add(entry)
	})
	if errors.Is(err, errStop) {
		return nil
	}
	l.ended = true // the remaining leaves of the last digest have no rows
	return errors.Join(err, l.old.Reset())
}

// entry returns the entry of the digest for a row.
func (d *digester) entry(r *row) (digest.Entry, error) {
	e := r.entity
	d.summer.Begin(r.key, e.ContentType)
	if e.Stream != nil {
		if n, err := io.Copy(&d.summer, e.Stream); err != nil || n != e.Size {
			return digest.Entry{}, fmt.Errorf("read body of key %q: %d bytes of %d: %w", r.key, n, e.Size, errors.Join(err, io.ErrUnexpectedEOF))
		}
	} else {
		_, _ = d.summer.Write(e.Body) // returns no error
	}
	return digest.Entry{Key: r.key, Sum: d.summer.Sum(), ContentID: e.ContentID, Page: r.place.page, Offset: r.place.offset}, nil
}

// report reports the progress, a few times a second.
func (d *digester) report(keys int64) {
	d.keys += keys
	if d.progress != nil && time.Since(d.reported) > 100*time.Millisecond {
		d.reported = time.Now()
		d.progress(d.keys)
	}
}
