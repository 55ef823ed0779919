package snapshots

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
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/draft"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
)

// ErrInvalid means that an entity cannot be in a snapshot.
var ErrInvalid = draft.ErrInvalid

// immutable is the Cache-Control of objects that never change.
const immutable = "public, max-age=31536000, immutable"

// Config holds the settings of a snapshot. The zero value of each setting stands for its default.
type Config struct {
	// Feed is the position in a feed to which the snapshot corresponds.
	Feed *snapshot.FeedPosition
	// CreatedAt defaults to the current time. In the index it is rounded down to a whole second,
	// and never later than the position in the feed.
	CreatedAt time.Time
	// PublicURL is the URL of the store for readers without a server, such as that of a
	// bucket or a CDN. In the index, the URL of a page is PublicURL followed by a key, and the URL
	// of the feed is PublicURL followed by a path. By default, these URLs are paths, which a server
	// completes.
	PublicURL string
	// Presign, if positive, is how long the page URLs in the index are valid: they are presigned
	// and need no other credential. The store must be a [storage.Presigner], and PublicURL must be
	// empty. Only the path of the feed's URL is meaningful then.
	Presign time.Duration
	// MaxPageBytes is the maximum size of a page with more than one entity, in bytes. Defaults to 1
	// MiB.
	MaxPageBytes int64
	// Concurrency is the number of pages that are written, and held in memory, at the same time.
	// Defaults to 24 if the store is remote (see [storage.Locator]), otherwise to 4.
	Concurrency int
	// MaxEntity is the largest body of an entity, in bytes. Defaults to no limit.
	MaxEntity int64
	// RetryFor is how long a write that fails is retried. Defaults to 1 minute.
	RetryFor time.Duration
	// SpoolDir is the directory in which streamed bodies are kept until they are in the store.
	// Defaults to the system's directory for temporary files.
	SpoolDir string
	// Progress, if set, is called after each page with the totals so far. Calls may be
	// concurrent.
	Progress func(entities int64, pages int)
}

// Write writes the entities as a snapshot and returns its index as stored. An entity without
// LastModified gets the time of creation; operations are not written. A snapshot without
// entities has no pages.
//
// The index is written last; only then does the snapshot exist. After an error or a crash, the
// snapshot does not exist, and [Collect] removes any pages left behind. However, if the outcome of
// the last write is unknown, Write fails although the snapshot may exist.
//
// An entity and its body are used until the next one is requested. Errors about an entity match
// [ErrInvalid].
func Write(ctx context.Context, store storage.Store, name string, entities iter.Seq2[*feed.Entity, error], c Config) (*snapshot.Index, error) {
	if err := layout.CheckName(name); err != nil {
		return nil, fmt.Errorf("write snapshot: %w", err)
	}
	c.MaxPageBytes = cmp.Or(c.MaxPageBytes, 1<<20)
	if c.Concurrency == 0 {
		c.Concurrency = 4
		if storage.PropertiesOf(store).Remote {
			c.Concurrency = 24
		}
	}
	c.RetryFor = cmp.Or(c.RetryFor, time.Minute)
	c.SpoolDir = cmp.Or(c.SpoolDir, os.TempDir())
	c.CreatedAt = cmp.Or(c.CreatedAt, time.Now())
	if c.Feed != nil && c.Feed.LastModified.Before(c.CreatedAt) {
		c.CreatedAt = c.Feed.LastModified
	}
	c.CreatedAt = feed.Truncate(c.CreatedAt)
	w := &writer{store: store, name: name, config: c, id: newID(time.Now())}
	err := w.checkURLs(ctx)
	var index *snapshot.Index
	if err == nil {
		index, err = w.write(ctx, entities)
	}
	if err != nil {
		return nil, fmt.Errorf("write snapshot %q: %w", name, err)
	}
	return index, nil
}

// newID returns an ID that sorts after those of earlier times.
func newID(t time.Time) string {
	return t.UTC().Format("20060102T150405.000Z-") + strings.ToLower(rand.Text()[:8])
}

// A writer writes one snapshot.
type writer struct {
	store    storage.Store
	name, id string
	config   Config
	entities int64
	pages    int
	buffers  sync.Pool // of *draft.Memory
	header   feed.HeaderBuffer
}

func (w *writer) write(ctx context.Context, entities iter.Seq2[*feed.Entity, error]) (*snapshot.Index, error) {
	group, writing := errgroup.WithContext(ctx)
	group.SetLimit(w.config.Concurrency)
	err := w.fill(writing, group, entities)
	// If a page could not be written, that error is the cause.
	if writeErr := group.Wait(); writeErr != nil {
		err = writeErr
	}
	var index *snapshot.Index
	if err == nil {
		index, err = w.index(ctx)
	}
	if err == nil {
		return index, w.writeIndex(ctx, index)
	}
	// Remove the pages if that is still possible; otherwise Collect will.
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_ = deletePrefix(cleanup, w.store, layout.SnapshotPages(w.name, w.id))
	return nil, err
}

// fill distributes the entities over pages and begins to write each full page.
func (w *writer) fill(ctx context.Context, group *errgroup.Group, entities iter.Seq2[*feed.Entity, error]) error {
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
		if ctx.Err() != nil {
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

func (w *writer) newDraft() *draft.Draft {
	m, _ := w.buffers.Get().(*draft.Memory)
	if m == nil {
		m = new(draft.Memory)
	}
	d := draft.New(*m)
	d.Copies = true
	return &d
}

// put puts an entity on a page. It returns false if the entity must go on another page.
func (w *writer) put(ctx context.Context, d *draft.Draft, e *feed.Entity) (bool, error) {
	if e.Stream != nil && d.Entities > 0 {
		return false, nil // a streamed entity needs its own page, and can be spooled only once
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
		return d.Put(w.header.Header(&stored, stored.LastModified), stored.Body, nil, w.config.MaxPageBytes)
	}
	s, err := draft.NewSpool(ctx, w.config.SpoolDir, e, w.config.MaxEntity)
	if err != nil {
		return false, err
	}
	ok, err := d.Put(w.header.Header(&stored, stored.LastModified), nil, s, w.config.MaxPageBytes)
	if err != nil {
		s.Remove()
	}
	return ok, err
}

// start begins to write a page. If Concurrency pages are being written already, it first waits
// until one of them has been written.
func (w *writer) start(ctx context.Context, group *errgroup.Group, d *draft.Draft) {
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
		m := d.Release()
		w.buffers.Put(&m)
		if w.config.Progress != nil {
			w.config.Progress(entities, n+1)
		}
		return nil
	})
}

// create writes an object. The key has a random part, so if the object exists after an unknown
// outcome, this writer has written it.
func (w *writer) create(ctx context.Context, key string, meta storage.Meta, body storage.Body) error {
	begun, pauses := time.Now(), backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}
	for n := 1; ; n++ {
		_, err := w.store.Create(ctx, key, meta, body)
		exists := errors.Is(err, storage.ErrExists)
		if n > 1 && exists {
			err = storage.Sync(ctx, w.store, key)
		}
		if err == nil {
			return nil
		}
		if n == 1 && exists || storage.IsPermanent(err) || time.Since(begun) >= w.config.RetryFor || pauses.Wait(ctx, n) != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
	}
}

// index returns the index for the pages that were written.
func (w *writer) index(ctx context.Context) (*snapshot.Index, error) {
	position, err := w.feedPosition()
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
	return index, nil
}

func (w *writer) writeIndex(ctx context.Context, index *snapshot.Index) error {
	data, err := json.Marshal(index)
	if err != nil {
		return fmt.Errorf("encode index: %w", err)
	}
	sum := sha256.Sum256(data)
	info, err := snapshot.IndexInfo{SHA256: hex.EncodeToString(sum[:])}.Encode()
	if err != nil {
		return err
	}
	meta := storage.Meta{ContentType: snapshot.MediaType, CacheControl: immutable, Data: info}
	return w.create(ctx, layout.SnapshotIndex(w.name, w.id), meta, storage.Bytes(data))
}
