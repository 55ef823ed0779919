package digests

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// immutable is the Cache-Control of objects that never change.
const immutable = "public, max-age=31536000, immutable"

// Times that keep [Collect] from removing objects to which a writer is about to refer. An unreferenced object
// is removed if it was written at least leftover ago. A writer writes an existing object again if it is older
// than half of leftover, and fails if writing the digest takes longer than the other half.
const (
	leftover = 24 * time.Hour
	young    = leftover / 2
	maxTime  = leftover / 2
)

// ErrBase means that the digest whose leaves were to be reused no longer exists, so the leaves may be missing.
var ErrBase = errors.New("the earlier state digest no longer exists")

// Config holds the settings of [Write]. The zero value of each field selects its default.
type Config struct {
	// Base is the ID of the digest whose leaves are reused.
	Base string
	// Concurrency is how many objects are written, and held in memory, at the same time.
	// Defaults to 24 if the store is remote (see [storage.Locator]), otherwise to 12.
	Concurrency int
	// RetryFor is how long each write is retried. Defaults to 1 minute; negative: not at all.
	RetryFor time.Duration
}

// A Result describes a digest that was written.
type Result struct {
	ID   string
	Root *digest.Root
	// Objects and Bytes are the number and size of the nodes and leaves that were built, without those that
	// were reused. Written is how many of Objects were not yet in the store.
	Objects, Bytes, Written int64
}

// Write writes a digest. The function build stores the nodes and leaves and returns the root, which
// is written last. After an error or a crash, the digest does not exist, with one exception: if the outcome of
// the last write is unknown, Write fails although the digest may exist. The error matches [ErrBase] if the
// base is missing. Write needs memory for the objects being written and, if there is a base, about 50 bytes
// for each leaf of the feed's digests.
func Write(ctx context.Context, store storage.Store, feed string, c Config, build func(context.Context, *Writer) (*digest.Root, error)) (*Result, error) {
	w := newWriter(store, feed, c)
	var root *digest.Root
	err := w.write(ctx, "", func(ctx context.Context) (data []byte, err error) {
		if root, err = build(ctx, w); err != nil {
			return nil, err
		}
		return root.Encode()
	})
	if err != nil {
		return nil, fmt.Errorf("write state digest of feed %q: %w", feed, err)
	}
	return &Result{ID: w.id, Root: root, Objects: w.objects.Load(), Bytes: w.bytes.Load(), Written: w.written.Load()}, nil
}

// idTime is the format of the time in an ID.
const idTime = "20060102T150405.000Z"

// newID returns an ID that sorts after the ID of the newest digest, even if the store's clock has only whole
// seconds or is set back.
func (w *Writer) newID(ctx context.Context) (string, error) {
	t := w.now
	newest, err := Newest(ctx, w.store, w.feed)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return "", err
	}
	before, _, _ := strings.Cut(newest, "-")
	if last, err := time.Parse(idTime, before); err == nil && !last.Before(t.Truncate(time.Millisecond)) {
		t = last.Add(time.Millisecond)
	}
	return t.UTC().Format(idTime) + "-" + strings.ToLower(rand.Text()[:8]), nil
}

func newWriter(store storage.Store, feed string, c Config) *Writer {
	if c.Concurrency == 0 {
		c.Concurrency = 12
		if storage.PropertiesOf(store).Remote {
			c.Concurrency = 24
		}
	}
	c.RetryFor = cmp.Or(c.RetryFor, time.Minute)
	return &Writer{store: store, feed: feed, config: c}
}

// A Writer stores the nodes and leaves of one digest. It implements [digest.Putter].
type Writer struct {
	store  storage.Store
	feed   string
	id     string
	config Config
	now    time.Time                // time by the store's clock when the Writer began
	there  map[digest.Hash]struct{} // nodes and leaves in the store at that time, if there is a base
	group  *errgroup.Group

	objects, bytes, written atomic.Int64
}

// write writes a digest with an ID; "" stands for a new one. The function objects stores the nodes
// and leaves and returns the bytes of the root.
func (w *Writer) write(ctx context.Context, id string, objects func(context.Context) ([]byte, error)) (err error) {
	if err := layout.CheckName(w.feed); err != nil {
		return err
	}
	if err := w.checkBase(ctx); err != nil {
		return err
	}
	if err := w.list(ctx); err != nil {
		return err
	}
	if w.now, err = storage.Now(ctx, w.store, time.Now); err != nil {
		return err
	}
	if w.id = id; id == "" { // the ID is from the store's clock, so that writers agree on the newest digest
		if w.id, err = w.newID(ctx); err != nil {
			return err
		}
	}
	begun := time.Now()
	var writing context.Context
	w.group, writing = errgroup.WithContext(ctx)
	w.group.SetLimit(w.config.Concurrency)
	root, err := objects(writing)
	// If a write failed, its error is the cause.
	if failed := w.group.Wait(); failed != nil {
		err = failed
	}
	if err != nil {
		return err
	}
	if took := time.Since(begun); took > maxTime {
		return fmt.Errorf("it took %v, longer than %v: objects may have been collected", took, maxTime)
	}
	if err := w.writeRoot(ctx, root); err != nil {
		return err
	}
	// A collection that begins now sees the new root. A collection that began earlier has seen the base,
	// provided that the base still exists.
	if err := w.checkBase(ctx); err != nil {
		return errors.Join(err, w.store.Delete(ctx, layout.DigestRoot(w.feed, w.id)))
	}
	return nil
}

// checkBase returns ErrBase if the base does not exist.
func (w *Writer) checkBase(ctx context.Context) error {
	if w.config.Base == "" {
		return nil
	}
	_, err := w.store.Stat(ctx, layout.DigestRoot(w.feed, w.config.Base))
	if errors.Is(err, storage.ErrNotFound) {
		err = fmt.Errorf("%w: %s", ErrBase, w.config.Base)
	}
	return err
}

// list finds out which nodes and leaves are in the store, if there is a base.
func (w *Writer) list(ctx context.Context) error {
	if w.config.Base == "" {
		return nil
	}
	w.there = make(map[digest.Hash]struct{})
	for object, err := range listNodes(ctx, w.store, w.feed) {
		if err != nil {
			return err
		}
		w.there[object.name] = struct{}{}
	}
	return nil
}

// Has reports whether a node or leaf of the base is really in the store, so that it can be reused.
func (w *Writer) Has(name digest.Hash) bool {
	_, ok := w.there[name]
	return ok
}

func (w *Writer) writeRoot(ctx context.Context, data []byte) error {
	info, err := rootInfo{w.feed, w.id, sha256.Sum256(data)}.encode()
	if err != nil {
		return err
	}
	_, err = w.create(ctx, layout.DigestRoot(w.feed, w.id), info, data)
	return err
}

// Put starts writing a node or leaf in the background.
func (w *Writer) Put(ctx context.Context, name digest.Hash, data []byte) error {
	data = bytes.Clone(data)
	w.group.Go(func() error {
		created, err := w.create(ctx, layout.DigestNode(w.feed, name.String()), nil, data)
		w.objects.Add(1)
		w.bytes.Add(int64(len(data)))
		if created {
			w.written.Add(1)
		}
		return err
	})
	return ctx.Err()
}

// create writes an object whose key determines its bytes, unless the object exists and is young.
func (w *Writer) create(ctx context.Context, key string, metadata, data []byte) (created bool, err error) {
	meta := storage.Meta{ContentType: digest.MediaType, CacheControl: immutable, Data: metadata}
	begun, pauses := time.Now(), backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}
	for n := 1; ; n++ {
		_, err = w.store.Create(ctx, key, meta, storage.Bytes(data))
		created = err == nil || created && errors.Is(err, storage.ErrExists)
		if errors.Is(err, storage.ErrExists) {
			err = w.renew(ctx, key, meta, data)
		} else if err != nil {
			created = true // perhaps
		}
		if err == nil {
			return created, nil
		}
		if storage.IsPermanent(err) || time.Since(begun) >= w.config.RetryFor || pauses.Wait(ctx, n) != nil {
			return false, fmt.Errorf("write %s: %w", key, err)
		}
	}
}

// renew makes an existing object durable. If the object may soon be collected, it is written again, which
// makes it young.
func (w *Writer) renew(ctx context.Context, key string, meta storage.Meta, data []byte) error {
	info, err := w.store.Stat(ctx, key)
	if err == nil && w.now.Sub(info.Modified) > young {
		_, err = w.store.Replace(ctx, key, info.Version, meta, storage.Bytes(data))
	}
	if err == nil {
		err = storage.Sync(ctx, w.store, key)
	}
	return err
}
