package producer

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/draft"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
)

// immutable is the Cache-Control of what never changes.
const immutable = "public, max-age=31536000, immutable"

// SnapshotConfig holds the settings of a snapshot. The zero value of each is its
// default.
type SnapshotConfig struct {
	// Feed is the position in a feed that the snapshot corresponds to.
	Feed *snapshot.FeedPosition
	// CreatedAt defaults to now. The index has the second it is in, or that of
	// the position in the feed if that is earlier.
	CreatedAt time.Time
	// PublicURL is where the store's keys can be read by plain HTTP, such as the URL
	// of a bucket or of a CDN: the page URLs in the index begin with it, and so does
	// the URL of the feed, as if a server had the same root. By default they are
	// references that a server resolves.
	PublicURL string
	// Presign makes the page URLs in the index such that are their own credential,
	// for this time, by the store's [storage.Presigner]; an error if it has none. It
	// excludes PublicURL. Of the feed's URL only the path counts then.
	Presign time.Duration
	// MaxPageBytes closes a page before it grows beyond this many bytes.
	// Defaults to 1 MiB.
	MaxPageBytes int64
	// Concurrency is how many pages are written, and held in memory, at the same
	// time. Defaults to 24.
	Concurrency int
	// MaxEntity, RetryFor and SpoolDir are those of Config.
	MaxEntity int64
	RetryFor  time.Duration
	SpoolDir  string
	// Progress, if set, is called after each page with what has been written so far.
	Progress func(entities int64, pages int)
}

// WriteSnapshot writes the entities as a snapshot and returns its index, as it
// is stored. Entities without LastModified get the time of creation; their
// operations are not written. A snapshot without entities has no pages. The
// snapshot exists from the moment its index is
// written, which is done last; after an error or a crash it does not, and what
// is left of it is removed by [CollectSnapshots].
//
// An entity, and its body, is used until the next one is asked for.
func WriteSnapshot(ctx context.Context, store storage.Store, name string, entities iter.Seq2[*Entity, error], c SnapshotConfig) (*snapshot.Index, error) {
	if err := layout.CheckName(name); err != nil {
		return nil, fmt.Errorf("write snapshot: %w", err)
	}
	c.MaxPageBytes = cmp.Or(c.MaxPageBytes, 1<<20)
	c.Concurrency = cmp.Or(c.Concurrency, 24)
	c.RetryFor = cmp.Or(c.RetryFor, time.Minute)
	c.SpoolDir = cmp.Or(c.SpoolDir, os.TempDir())
	c.CreatedAt = cmp.Or(c.CreatedAt, time.Now())
	if c.Feed != nil && c.Feed.LastModified.Before(c.CreatedAt) {
		c.CreatedAt = c.Feed.LastModified
	}
	c.CreatedAt = feed.Truncate(c.CreatedAt)
	w := &snapshotWriter{store: store, name: name, config: c, id: snapshotID(time.Now())}
	if err := w.checkPublic(ctx); err != nil {
		return nil, fmt.Errorf("write snapshot %q: %w", name, err)
	}
	index, err := w.write(ctx, entities)
	if err != nil {
		return nil, fmt.Errorf("write snapshot %q: %w", name, err)
	}
	return index, nil
}

// snapshotID returns an id that sorts after those of earlier times.
func snapshotID(t time.Time) string {
	return t.UTC().Format("20060102T150405.000Z-") + strings.ToLower(rand.Text()[:8])
}

type snapshotWriter struct {
	store    storage.Store
	name, id string
	config   SnapshotConfig
	entities int64
	pages    int
	buffers  sync.Pool // of []byte, for pages
}

func (w *snapshotWriter) write(ctx context.Context, entities iter.Seq2[*Entity, error]) (*snapshot.Index, error) {
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(w.config.Concurrency)
	err := w.fill(writing, group, entities)
	// The writers' error is the cause if it ended the filling.
	if writeErr := group.Wait(); writeErr != nil {
		err = writeErr
	}
	var index *snapshot.Index
	if err == nil {
		index, err = w.writeIndex(ctx)
	}
	if err != nil {
		// Tidy up if that is still possible; CollectSnapshots does it otherwise.
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if index == nil {
			_ = deletePrefix(cleanup, w.store, layout.SnapshotPages(w.name, w.id))
		}
		return nil, err
	}
	return index, nil
}

// fill distributes the entities over pages and starts the writing of each.
func (w *snapshotWriter) fill(ctx context.Context, group *errgroup.Group, entities iter.Seq2[*Entity, error]) error {
	d := w.newDraft()
	flush := func() {
		if d.Entities > 0 {
			w.start(ctx, group, d)
			d = w.newDraft()
		}
	}
	for e, err := range entities {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		fits := false
		for !fits {
			if fits, err = w.put(ctx, d, e); err != nil {
				return fmt.Errorf("entity %d: %w", w.entities, err)
			}
			if !fits || d.Closed || d.Size() >= w.config.MaxPageBytes {
				flush()
			}
		}
		w.entities++
	}
	flush()
	return nil
}

func (w *snapshotWriter) newDraft() *draft.Draft {
	buf, _ := w.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	d := draft.New(*buf)
	d.Copies = true
	return &d
}

func (w *snapshotWriter) put(ctx context.Context, d *draft.Draft, e *Entity) (bool, error) {
	if e.Stream != nil && d.Entities > 0 {
		return false, nil // it needs a page of its own, and can be spooled only once
	}
	stored := *e
	stored.Operation = ""
	stored.LastModified = cmp.Or(stored.LastModified, w.config.CreatedAt)
	if err := stored.Check(false); err != nil {
		return false, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if limit := w.config.MaxEntity; limit > 0 && int64(len(e.Body)) > limit {
		return false, fmt.Errorf("%w: body has %d bytes, the limit is %d", ErrInvalid, len(e.Body), limit)
	}
	if e.Stream == nil {
		return d.Put(stored.AppendHeader(nil), stored.Body, nil, w.config.MaxPageBytes)
	}
	s, err := draft.NewSpool(ctx, w.config.SpoolDir, e, w.config.MaxEntity)
	if err != nil {
		return false, err
	}
	ok, err := d.Put(stored.AppendHeader(nil), nil, s, w.config.MaxPageBytes)
	if err != nil {
		s.Remove()
	}
	return ok, err
}

// start begins to write a page, when there is room for one more.
func (w *snapshotWriter) start(ctx context.Context, group *errgroup.Group, d *draft.Draft) {
	n, entities := w.pages, w.entities
	w.pages++
	group.Go(func() error {
		if d.Spool != nil {
			defer d.Spool.Remove()
		}
		if !d.Closed {
			d.Close()
		}
		sum, err := d.Finish()
		if err != nil {
			return err
		}
		data, err := snapshot.PageInfo{Entities: d.Entities, SHA256: sum, ID: w.id, Number: n, Boundary: d.Boundary}.Encode()
		if err != nil {
			return err
		}
		meta := storage.Meta{ContentType: page.ContentType(d.Boundary), CacheControl: immutable, Data: data}
		if err := w.create(ctx, layout.SnapshotPage(w.name, w.id, n), meta, d.Body()); err != nil {
			return err
		}
		buf := d.Release()
		w.buffers.Put(&buf)
		if w.config.Progress != nil {
			w.config.Progress(entities, n+1)
		}
		return nil
	})
}

// create writes an object that nobody else writes, as its key has a random part:
// if it is there after an unknown outcome, it is ours.
func (w *snapshotWriter) create(ctx context.Context, key string, meta storage.Meta, body storage.Body) error {
	retry := newRetry(w.config.RetryFor)
	for tried := false; ; tried = true {
		_, err := w.store.Create(ctx, key, meta, body)
		if tried && errors.Is(err, storage.ErrExists) {
			err = makeDurable(ctx, w.store, key)
		}
		if err == nil {
			return nil
		}
		if final(err) || lostRace(err) || ctx.Err() != nil || !retry.wait(ctx) {
			return fmt.Errorf("write %s: %w", key, err)
		}
	}
}

func (w *snapshotWriter) writeIndex(ctx context.Context) (*snapshot.Index, error) {
	position, err := w.publicFeed()
	if err != nil {
		return nil, err
	}
	index := &snapshot.Index{ID: w.id, CreatedAt: w.config.CreatedAt, Feed: position, Entities: w.entities}
	for n := range w.pages {
		ref, err := w.pageURL(ctx, n)
		if err != nil {
			return nil, err
		}
		index.Pages = append(index.Pages, ref)
	}
	data, err := json.Marshal(index)
	if err != nil {
		return nil, fmt.Errorf("encode index: %w", err)
	}
	sum := sha256.Sum256(data)
	info, err := snapshot.IndexInfo{SHA256: hex.EncodeToString(sum[:])}.Encode()
	if err != nil {
		return nil, err
	}
	meta := storage.Meta{ContentType: snapshot.MediaType, CacheControl: immutable, Data: info}
	return index, w.create(ctx, layout.SnapshotIndex(w.name, w.id), meta, storage.Bytes(data))
}
