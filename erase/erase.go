package erase

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// ErrTold means that a key cannot be replaced, because consumers have not been told yet to delete its data.
var ErrTold = errors.New("the last entity of the key is not a DELETE: first erase without replacing the key, and wait until all consumers have read the feed to its end")

// Config holds the settings of an erasure.
type Config struct {
	// Keys are the keys whose entities are erased. A key is the Content-Location with its percent-encoding
	// undone.
	Keys []string
	// KeyPointer is a JSON Pointer (RFC 6901) to an entity's key in its body, for feeds without
	// Content-Location. A body that has no such value, or is larger than 1 MiB, is an error.
	KeyPointer string
	// ForgetKeys also replaces the keys with random ones. Consumers that have not read the DELETE of a key by
	// then keep the data that they have for the key.
	ForgetKeys bool
	// Progress, if set, is called from time to time.
	Progress func(Progress)
	// Logger receives warnings. If it is nil, they are discarded.
	Logger *slog.Logger
}

// Progress says how far an erasure has come, first with reading the feed, then with writing the copies.
type Progress struct {
	Entities int64
	Bytes    int64
	Total    int64 // the final value of Bytes; 0 if unknown
}

// A Report says what will be erased, or was erased.
type Report struct {
	Pages    int64 `json:"pages"`         // all pages of the feed, which are written again
	Bytes    int64 `json:"bytes"`         // the size of these pages
	Affected int64 `json:"pagesAffected"` // pages with an entity to be erased
	Entities int64 `json:"entities"`      // entities to be erased
	// Unknown lists the keys for which the feed has no entity.
	Unknown []string `json:"keysUnknown"`
	// Deletes is how many keys get a DELETE at the end of the feed, since their last entity is not a DELETE.
	Deletes int64 `json:"deletes"`
	// Former is how many other objects with former content of the feed are deleted: pages that an interrupted
	// erasure left behind or a repair moved aside, and those quarantine entries of a bridge and state digests
	// that contain one of the keys.
	Former int64 `json:"objectsFormer"`
	// Kept is how many entities of the keys were not erased because they were published after the feed was
	// searched.
	Kept int64 `json:"entitiesKept"`
	// Oldest and Newest are the first and the last page of the feed afterwards.
	Oldest int64 `json:"oldestPage"`
	Newest int64 `json:"newestPage"`
}

// A Plan is the result of searching a feed for what is to be erased. Its methods must not be called
// concurrently.
type Plan struct {
	store  storage.Store
	feed   string
	config Config
	keys   *keys
	reader *chain.Reader
	report Report

	last     map[string]state // the last state of each of the keys that the feed has
	page     int64            // the newest page that was searched
	entities int              // how many entities were on that page
	former   []string         // keys of objects to be deleted
	digests  int64            // how many state digests contain one of the keys
}

// Find reads a feed and finds what is to be erased. It writes nothing. The error matches
// [chain.ErrNoFeed] if there is no feed, [chain.ErrCorrupt] if a page is damaged, and [ErrTold] if
// ForgetKeys is set too early.
func Find(ctx context.Context, store storage.Store, name string, c Config) (*Plan, error) {
	p := &Plan{store: store, feed: name, config: c, reader: chain.NewReader(store, name), last: map[string]state{}}
	if err := p.find(ctx); err != nil {
		return nil, fmt.Errorf("find what to erase in feed %q: %w", name, err)
	}
	return p, nil
}

func (p *Plan) find(ctx context.Context) (err error) {
	if err = layout.CheckName(p.feed); err != nil {
		return err
	}
	if p.config.Logger == nil {
		p.config.Logger = slog.New(slog.DiscardHandler)
	}
	if p.keys, err = newKeys(p.config); err != nil {
		return err
	}
	newest, err := p.reader.Newest(ctx)
	if err != nil {
		return err
	}
	if err := p.search(ctx, newest); err != nil {
		return err
	}
	p.page, p.entities = newest.Number, newest.Entities
	p.report.Oldest, p.report.Newest, p.report.Unknown = p.reader.SeenFloor(), newest.Number, []string{}
	for key := range p.keys.names {
		last, ok := p.last[key]
		switch {
		case !ok:
			p.report.Unknown = append(p.report.Unknown, key)
		case last.operation == feed.Delete:
		case p.config.ForgetKeys:
			return fmt.Errorf("key %q: %w", key, ErrTold)
		default:
			p.report.Deletes++
		}
	}
	slices.Sort(p.report.Unknown)
	if err := p.findDigests(ctx); err != nil {
		return err
	}
	return p.findFormer(ctx)
}

// Report returns what Run will do.
func (p *Plan) Report() Report { return p.report }

// IsEmpty reports whether there is nothing to do.
func (p *Plan) IsEmpty() bool {
	return p.report.Entities == 0 && p.report.Deletes == 0 && p.report.Former == 0
}

// Run erases what was found, and returns what it has done. After an error, it may be repeated with
// another Plan. Entities of the keys that were published after the Plan was made are kept; see
// [Report.Kept].
func (p *Plan) Run(ctx context.Context) (Report, error) {
	if err := p.run(ctx); err != nil {
		return p.report, fmt.Errorf("erase from feed %q: %w", p.feed, err)
	}
	return p.report, nil
}

func (p *Plan) run(ctx context.Context) error {
	if err := p.tell(ctx); err != nil {
		return err
	}
	// All digests are dropped: those without the keys may refer to pages that are replaced, and those made since
	// the search may contain one of the keys.
	if p.report.Entities > 0 || p.report.Deletes > 0 || p.digests > 0 {
		if err := p.dropDigests(ctx); err != nil {
			return err
		}
	}
	if p.report.Entities > 0 {
		if err := p.replace(ctx); err != nil {
			return err
		}
	}
	return p.clean(ctx)
}

// tell publishes a DELETE of each key whose last entity is not a DELETE, for consumers that have data of the
// key.
func (p *Plan) tell(ctx context.Context) error {
	if p.report.Deletes == 0 {
		return nil
	}
	var deletes []*feed.Entity
	for key, last := range p.last {
		if last.operation != feed.Delete {
			e := &feed.Entity{Operation: feed.Delete, ContentLocation: last.location}
			if e.Key() != key {
				e.ContentLocation = feed.EncodeKey(key)
			}
			deletes = append(deletes, e)
		}
	}
	f, err := producer.Open(ctx, p.store, p.feed, producer.Config{Logger: p.config.Logger})
	if err != nil {
		return err
	}
	_, err = f.Publish(ctx, deletes...)
	return errors.Join(err, f.Close())
}
