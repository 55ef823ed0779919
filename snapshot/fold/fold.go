// Package fold creates a snapshot of a feed: the last state of each key, without keys
// that were deleted. A new consumer can begin with the snapshot instead of the feed's
// beginning, and the old pages of the feed can be pruned.
//
// In some feeds a key has several states at once, such as a CouchDB document with conflicts. If
// [Config.Version] is set, the snapshot has each version that no other version has replaced,
// including deletions.
//
// The feed is applied in order to a table in a temporary file, and the rows of the
// table become the entities of the snapshot, so memory is bounded regardless of the
// size of the feed. The snapshot records the last entity of the feed that was applied:
// a consumer that reads the snapshot and continues after that entity misses nothing and
// receives nothing twice, even if entities are published meanwhile.
//
// If the feed has been pruned, the fold begins with the newest snapshot of the same
// name, which was created while the pages existed. A feed can therefore be folded and
// pruned repeatedly.
//
// The table may be kept ([Config.Table]). Its rows and the position in the feed are committed
// together, so a fold that was interrupted can be resumed, and a later fold applies only new
// entities.
//
// [Digest] writes a state digest of the feed instead, and [Feed] can write one along with the
// snapshot ([Config.Digested]). With a kept table, only the leaves whose rows have changed are
// computed.
package fold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// Config holds the settings of a fold. The zero value of each setting stands for its default.
type Config struct {
	// Name is the name of the snapshot. Defaults to the name of the feed.
	Name string
	// KeyPointer is a JSON Pointer (RFC 6901) to an entity's key in its body, for
	// feeds without Content-Location.
	KeyPointer string
	// Version, if set, returns the versions of a key in feeds in which a key may have several
	// states at once.
	Version VersionFunc
	// PublicURL and Presign are passed on in [snapshots.Config].
	PublicURL string
	Presign   time.Duration
	// Retry configures retries while reading the feed. The defaults are those of a consumer that
	// does not follow.
	Retry consumer.RetryConfig
	// TempDir is the directory for a temporary table, which grows to the size of the state.
	// Defaults to the system's directory for temporary files.
	TempDir string
	// Table, if set, is the file in which the table is kept for the next fold of the feed.
	// It is removed and created again if it is damaged, belongs to another feed or KeyPointer, or
	// no longer matches the feed, or if it was made with a Version and this fold has none, or the
	// other way round.
	Table string
	// Digested, if set, makes [Feed] write a state digest as well, and is called with the result.
	Digested func(*digests.Result)
	// Progress, if set, is called while the feed is being read.
	Progress func(consumer.Progress)
	// Digesting, if set, is called while a digest is being computed, with the number of keys
	// processed so far.
	Digesting func(keys int64)
	// Logger, if set, receives warnings.
	Logger *slog.Logger
}

// ErrPruned means that the feed's first pages have been pruned and there is no snapshot that has
// their state.
var ErrPruned = errors.New("feed has been pruned")

// table is the name of the table in the database file.
const table = "state"

// Feed writes a snapshot of the feed as it is now and returns its index. The snapshot is empty if
// the last state of every key is deleted. If the feed does not exist, the error matches
// [consumer.ErrNotFound].
func Feed(ctx context.Context, store storage.Store, name string, c Config) (index *snapshot.Index, err error) {
	err = fold(ctx, store, name, c, func(file string, c Config, at *snapshot.FeedPosition) (err error) {
		if index, err = write(ctx, store, file, c, at); err != nil || c.Digested == nil {
			return err
		}
		result, err := writeDigest(ctx, store, name, file, c, at, index)
		if err == nil {
			c.Digested(result)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return index, nil
}

// A tableFunc reads the table in the given file, which has the state of the feed at the given
// position.
type tableFunc func(file string, c Config, at *snapshot.FeedPosition) error

// fold brings the table of a feed up to date and calls use with the file of the table.
func fold(ctx context.Context, store storage.Store, name string, c Config, use tableFunc) error {
	if err := layout.CheckName(name); err != nil {
		return fmt.Errorf("fold feed: %w", err)
	}
	if c.Name == "" {
		c.Name = name
	}
	err := foldFeed(ctx, store, name, c, use)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err) // SQLite does not return the cause of an interrupt
	}
	if err != nil {
		return fmt.Errorf("fold feed %q: %w", name, err)
	}
	return nil
}

func foldFeed(ctx context.Context, store storage.Store, name string, c Config, use tableFunc) (err error) {
	if c.Table != "" {
		err := foldWith(ctx, store, name, c.Table, c, use)
		if !isMismatch(err) || ctx.Err() != nil {
			return err
		}
		if c.Logger != nil {
			c.Logger.Info("table of an earlier fold cannot be used, creating it again", "feed", name, "table", c.Table, "reason", err)
		}
		if err := removeTable(c.Table); err != nil {
			return err
		}
		return foldWith(ctx, store, name, c.Table, c, use)
	}
	sweep(cmp.Or(c.TempDir, os.TempDir()))
	dir, err := os.MkdirTemp(c.TempDir, tempPrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "state.db")
	return renamed(foldWith(ctx, store, name, file, c, use), sinkName(file), "the table")
}

// foldWith brings the table in a file up to date and calls use with the file. It holds the lock of
// the table.
func foldWith(ctx context.Context, store storage.Store, name, file string, c Config, use tableFunc) (err error) {
	state, err := openTable(ctx, file, c.Table == "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	at, err := apply(ctx, store, name, file, state, c)
	if err == nil && c.Table == "" {
		err = state.Close() // frees its cache of several MB; the lock still keeps out others
	}
	if err != nil {
		return err
	}
	if c.Table != "" {
		// Remove the remains of killed folds. The result is valid even if that fails.
		if _, err := snapshots.Collect(ctx, store, c.Name, leftover); err != nil && c.Logger != nil {
			c.Logger.Warn("cannot remove pages of unfinished snapshots", "snapshot", c.Name, "error", err)
		}
	}
	return use(file, c, at)
}

// leftover is the age from which pages of a snapshot without an index, and files of a fold, count
// as abandoned.
const leftover = 24 * time.Hour

const tempPrefix = "feedctl-fold-"

// sweep removes the temporary directories of killed folds. It ignores errors.
func sweep(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	for _, path := range left {
		files, err := os.ReadDir(path)
		if err != nil || slices.ContainsFunc(files, isYoung) {
			continue
		}
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > leftover {
			_ = os.RemoveAll(path)
		}
	}
}

func isYoung(file os.DirEntry) bool {
	info, err := file.Info()
	return err != nil || time.Since(info.ModTime()) <= leftover
}

// apply applies the new entities of the feed to the table and returns the position after
// the last one.
func apply(ctx context.Context, store storage.Store, name, file string, state consumer.Sink, c Config) (at *snapshot.FeedPosition, err error) {
	source := fromstore.New(store, fromstore.Config{Logger: c.Logger})
	defer source.Close()
	client, err := consumer.New(consumer.Config{Source: source, Retry: c.Retry, Logger: c.Logger})
	if err != nil {
		return nil, err
	}
	if c.Version != nil {
		state = &versions{state, c.Version, filepath.Dir(file)}
	}
	state = &places{state, name}
	w := &work{pages: chain.NewReader(store, name), file: file, temporary: c.Table == "", origin: tableOrigin{
		Version: tableVersion, Feed: name, KeyPointer: c.KeyPointer, Versions: c.Version != nil,
	}}
	before, err := state.Position(ctx)
	if err != nil {
		return nil, err
	}
	from := consumer.Beginning()
	if before.IsZero() {
		var pruned bool
		if from, pruned, err = start(ctx, client, source, store, name, c.Name); err != nil {
			return nil, err
		}
		w.origin.Whole = pruned // a table that begins with a snapshot is whole; for others, checkWhole decides
	} else if err := w.check(ctx); err != nil {
		return nil, err
	}
	if err := w.note(ctx); err != nil {
		return nil, err
	}
	job := consumer.Job{
		Client:     client,
		From:       from,
		URL:        source.Feed(name),
		Sink:       state,
		KeyPointer: c.KeyPointer,
		Progress:   c.Progress,
		Logger:     c.Logger,
	}
	if _, err := job.Run(ctx); err != nil {
		if !before.IsZero() && lost(err) {
			err = fmt.Errorf("%w: %w", errMismatch, err)
		}
		return nil, err
	}
	position, err := state.Position(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.checkWhole(ctx); err != nil {
		return nil, err
	}
	page := ""
	if _, n, err := layout.ParseFeedPageURL(position.Page); err == nil {
		page = layout.FeedPagePath(name, n)
	}
	return &snapshot.FeedPosition{ // URLs are paths here; the server completes them
		URL:          layout.FeedPath(name),
		Page:         page,
		LastModified: position.LastModified,
		ContentID:    position.ContentID,
	}, nil
}

// start returns where a fold begins, and whether the feed has been pruned. A fold begins at the
// beginning of the feed or, if that has been pruned, with the newest snapshot, which has the state
// of the pruned pages.
func start(ctx context.Context, client *consumer.Client, source *fromstore.Source, store storage.Store, name, snapshotName string) (consumer.Start, bool, error) {
	pages := chain.NewReader(store, name)
	pruned, err := pages.Pruned(ctx)
	floor := pages.SeenFloor()
	if err != nil || !pruned {
		return consumer.Beginning(), false, err
	}
	indexURL := source.Snapshot(snapshotName)
	index, err := client.Index(ctx, indexURL)
	switch {
	case errors.Is(err, consumer.ErrNotFound):
		return consumer.Start{}, false, fmt.Errorf("%w: it begins with page %d, and there is no snapshot %q to begin with", ErrPruned, floor, snapshotName)
	case err != nil:
		return consumer.Start{}, false, err
	case index.Feed == nil || index.Feed.URL != source.Feed(name):
		return consumer.Start{}, false, fmt.Errorf("%w: it begins with page %d, and snapshot %q is not of this feed", ErrPruned, floor, snapshotName)
	}
	return consumer.FromSnapshot(indexURL), true, nil
}

func write(ctx context.Context, store storage.Store, file string, c Config, at *snapshot.FeedPosition) (_ *snapshot.Index, err error) {
	rows, err := openRows(ctx, file, c.Version != nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.close()) }()
	return snapshots.Write(ctx, store, c.Name, rows.entities(), snapshots.Config{
		Feed:      at,
		PublicURL: c.PublicURL,
		Presign:   c.Presign,
	})
}
