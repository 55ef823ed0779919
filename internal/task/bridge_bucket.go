package task

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"

	bridgekinto "github.com/feedctl/feedctl/bridge/kinto"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/tracing"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
)

// OfBucket reports whether the source is a bucket, each of whose collections has a feed.
func (b *BridgeKinto) OfBucket() bool {
	a, err := kinto.ParseURL(b.Source.URL)
	return err == nil && a.Bucket != "" && a.Collection == ""
}

// ParseFeeds parses an argument NAMES or STORE#NAMES, where NAMES is the pattern of the names of a
// bucket's feeds. It returns the store and the pattern.
func ParseFeeds(arg, storeURL string) (locate.Stored, bridgekinto.FeedNames, error) {
	store, name, ok := strings.Cut(arg, "#")
	if !ok {
		store, name = "", arg
	}
	names := bridgekinto.FeedNames(name)
	if !strings.Contains(name, "*") {
		if _, err := locate.Parse(arg, storeURL); err != nil {
			return locate.Stored{}, names, err
		}
	}
	if err := names.Check(); err != nil {
		return locate.Stored{}, names, exit.Usagef("%w", err)
	}
	one := names.Feed("c")
	if ok {
		one = store + "#" + one
	}
	at, err := locate.Parse(one, storeURL)
	return at, names, err
}

// checkBucket returns an error if an argument or a flag for a bucket is invalid. It does not use the network.
func (b *BridgeKinto) checkBucket() error {
	_, err := locate.ParseURL(b.Source.URL)
	problems := []error{ofArgument(err), b.Source.checkLimits()}
	at, names, err := ParseFeeds(b.Feed, "")
	if err == nil && at.Store != "" {
		err = locate.CheckStore(at.Store)
	}
	problems = append(problems, ofArgument(err))
	if err == nil {
		if err := (&bridgekinto.Bucket{Patterns: b.Collections, Feeds: names}).Check(); err != nil {
			problems = append(problems, exit.Usagef("--collections: %w", err))
		}
	}
	return errors.Join(problems...)
}

// A KintoBucket is the result of a run of [BridgeKinto] for a bucket.
type KintoBucket struct {
	OK          bool           `json:"ok"`
	Source      string         `json:"source"` // URL of the bucket
	Published   int64          `json:"published"`
	Quarantined int64          `json:"quarantined"`
	Repeated    int64          `json:"repeated"`
	Collections []KintoBridged `json:"collections"`
}

// RunBucket is like Run, for a bucket. If only some of the collections failed, it returns a result
// along with the error.
func (b *BridgeKinto) RunBucket(ctx context.Context, e *Env) (*KintoBucket, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	at, names, err := ParseFeeds(b.Feed, e.Store)
	if err != nil {
		return nil, err
	}
	config, err := b.config()
	if err != nil {
		return nil, err
	}
	config.Attempts, config.Log, config.MaxRecord = e.attempts(b.Retries), e.Log, b.Source.MaxRecord
	config.Producer.Observe = tracing.FromContext(ctx).Writes()
	store, err := e.OpenStore(ctx, at.Store, Access{Create: true, Follow: b.Follow})
	if err != nil {
		return nil, err
	}
	source, err := b.Source.client(e)
	if err != nil {
		return nil, err
	}
	address, err := kinto.ParseURL(b.Source.URL)
	if err != nil {
		return nil, err
	}
	b.bucket.Bucket, b.bucket.Patterns, b.bucket.Store, b.bucket.Feeds = address.Bucket, b.Collections, store, names
	b.bucket.Follow, b.bucket.Interval, b.bucket.Log = b.Follow, 6*b.Interval, e.Log
	if b.bucket.Server, err = kinto.OpenServer(source); err != nil {
		return nil, exit.Usagef("%w", err)
	}
	if _, err := b.indexOf(at); err != nil {
		return nil, err
	}
	made := &madeSnapshots{env: e, store: store, follow: b.Follow}
	b.bucket.Job = func(_, feed string) *bridgekinto.Job {
		job := &bridgekinto.Job{Config: config}
		job.Index, _ = b.indexOf(locate.Stored{Store: at.Store, Name: feed}) // the error was checked above
		if b.Snapshot {
			job.CaughtUp = func(ctx context.Context) error { return made.snapshot(ctx, feed, job.Index) }
		}
		return job
	}
	err = b.bucket.Run(ctx)
	result := b.resultOfBucket(made, ctx.Err() == nil)
	_, partly := errors.AsType[*bridgekinto.BucketError](err)
	switch {
	case partly:
		return result, hintKinto(err)
	case err != nil && ctx.Err() == nil:
		return nil, hintKinto(err)
	case err != nil:
		return result, err
	}
	result.OK = true
	return result, b.check(b.bucket.Progress())
}

// resultOfBucket returns the result of a run that has ended, or was interrupted.
func (b *BridgeKinto) resultOfBucket(made *madeSnapshots, ended bool) *KintoBucket {
	total := b.bucket.Progress()
	result := &KintoBucket{Source: sink.Redact(b.Source.URL), Published: total.Published, Quarantined: total.Quarantined, Repeated: total.Repeated, Collections: []KintoBridged{}}
	for _, c := range b.bucket.Collected() {
		one := KintoBridged{
			OK: ended && c.Err == nil, Source: b.bucket.Server.Collection(b.bucket.Bucket, c.Collection).URL(), Feed: c.Feed,
			Published: c.Published, Quarantined: c.Quarantined, Repeated: c.Repeated, Snapshot: made.of(c.Feed),
		}
		if c.Err != nil {
			one.Error = c.Err.Error()
		}
		result.Collections = append(result.Collections, one)
	}
	return result
}

// indexOf returns the file of the index of a feed.
func (b *BridgeKinto) indexOf(at locate.Stored) (string, error) {
	given := b.Source.Index
	if given != "" {
		given = filepath.Join(given, at.Name+".index")
	}
	return indexFile(given, "kinto", at.Identity())
}

// madeSnapshots makes snapshots for the bridges of a bucket, and keeps the results by feed.
type madeSnapshots struct {
	env    *Env
	store  storage.Store
	follow bool

	mu   sync.Mutex
	made map[string]*Snapshot
}

func (m *madeSnapshots) snapshot(ctx context.Context, feed, index string) error {
	s, err := snapshotOfBridge(ctx, m.env, bridged{store: m.store, feed: feed, index: index, follow: m.follow})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made == nil {
		m.made = map[string]*Snapshot{}
	}
	m.made[feed] = s
	return err
}

func (m *madeSnapshots) of(feed string) *Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.made[feed]
}
