package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonptr"
)

// A GapPolicy determines what a [Job] does when entities after its position may have
// been missed; see [IsGap].
type GapPolicy int

const (
	// GapFail returns the error.
	GapFail GapPolicy = iota
	// GapReplay continues from the time of the position, or from the oldest
	// entity, so that the sink receives some entities again. Data from another
	// timeline stays in the sink.
	GapReplay
	// GapSnapshot starts over from the snapshot at [Job.SnapshotURL]. When it has been read, keys that
	// it does not contain are removed from a sink that is a [Replacer]: they were deleted in the gap.
	// Other sinks keep them, and the job logs a warning.
	GapSnapshot
)

func (g GapPolicy) String() string {
	switch g {
	case GapReplay:
		return "replay"
	case GapSnapshot:
		return "snapshot"
	}
	return "fail"
}

// A Job consumes a feed into a [Sink]: each entity once, in order, with the
// position committed together with the data.
type Job struct {
	Client *Client
	// URL is the feed's entry point. Its origin receives the credentials.
	URL string
	// Feed identifies the feed in the positions of the sink; see
	// [feed.Position]. "" means the URL, without a user name and password.
	Feed string
	Sink Sink
	// From is where to start if the sink has no position.
	From  Start
	OnGap GapPolicy
	// Until is where to end, if before the end of the feed. The position is then that of the last
	// entity that was applied, so that another Job can continue. It is not an error if Until is a time
	// after which the feed has no entity. With [FromSnapshot], the newest snapshot that is not after
	// Until is chosen, if the server can choose one. If it cannot, a snapshot after Until is a
	// [PassedError].
	Until Until
	// NewestFirst makes a sink without a position receive the newest entities first: the feed is read
	// back, page by page, to its beginning or, with [FromSnapshot], to the snapshot, while entities
	// that are published in the meantime are applied about every [Config.PollInterval]. Only the
	// newest entity of each key is applied; patches are held until the PUT of their key is read. In
	// the end, the sink's data is the same as after reading in order; before that, it may have newer
	// entities while older ones are missing. The Sink must be a [Backfiller], and From must be
	// [Beginning] or [FromSnapshot]. A run that finds a position in the sink continues as this
	// position requires.
	NewestFirst bool
	// SnapshotURL is the URL of the snapshot index from which [GapSnapshot] starts over.
	SnapshotURL string
	// KeyPointer, if not empty, is a JSON Pointer (RFC 6901) to an entity's key
	// in its body. The sink receives the entity with this key as its
	// ContentLocation. An entity without a body keeps its ContentLocation.
	KeyPointer string

	// A batch is committed when it has BatchEntities entities (0: 10,000) or
	// BatchBytes bytes of bodies (0: 8 MiB), or is BatchInterval old when an
	// entity arrives (0: 1 s), or when the end of the feed is reached.
	BatchEntities int
	BatchBytes    int64
	BatchInterval time.Duration

	// Progress, if not nil, is called after each commit.
	Progress func(Progress)
	// Oldest, if not nil, is called when the first entity of a batch has been read from the feed, with
	// the entity's Last-Modified. At that moment, this entity is the oldest one that has not been
	// committed.
	Oldest func(time.Time)
	// Observe, if not nil, is called before each commit of the sink. It returns the context for the
	// commit, and a function that is called with the outcome of the commit.
	Observe func(context.Context, Commit) (context.Context, func(error))
	// Logger logs how the job handles gaps and failed streams. nil means the Client's
	// logger.
	Logger *slog.Logger
}

// A Commit describes a batch that a [Job] commits.
type Commit struct {
	Begun    time.Time // when the first entity was applied
	Entities int       // 0 if only the position moves
	Bytes    int64     // of their bodies
	Page     string    // URL of the page with the last entity, or empty
	Traces   feed.Traces
}

// Stats are counts of one run of a [Job].
type Stats struct {
	Entities int64 `json:"entities"` // committed
	Bytes    int64 `json:"bytes"`    // of the bodies of Entities; streams of unknown size count as 0
	Batches  int64 `json:"commits"`
	Restarts int   `json:"-"`    // how often the run restarted from the position because a stream or the sink had failed
	Gaps     int   `json:"gaps"` // handled according to OnGap
	// Removed is how many keys were removed from the sink because they had been deleted in a gap.
	Removed int64 `json:"removed,omitempty"`
	// Rejected counts the entities, also included in Entities, that the sink rejected.
	Rejected
}

// Run consumes to the end of the feed, or until ctx ends if the Client follows.
//
// When ctx ends, or reading fails, the entities that were applied completely are
// committed; if applying fails, the batch is rolled back. When ctx ends, the error of Run wraps the
// error of ctx.
//
// If a page that is too large to be held ([Config.MaxHeld]) turns out to be damaged after some of its
// entities were committed, the position is moved back to before the page. The next run first reads the
// page to its end. If it is still damaged, the run applies nothing and returns the same error.
// Otherwise it applies all entities of the page, some of them a second time.
func (j *Job) Run(ctx context.Context) (Stats, error) {
	r, err := j.newRun()
	if err != nil {
		return Stats{}, fmt.Errorf("consume %s: %w", shown(j.URL), err)
	}
	if err := r.run(ctx); err != nil {
		return r.stats, fmt.Errorf("consume %s: after %d entities: %w", shown(j.URL), r.stats.Entities, err)
	}
	return r.stats, nil
}

func (j *Job) newRun() (*run, error) {
	r := &run{Job: *j, rejected: rejected(j.Sink)}
	r.BatchEntities = cmp.Or(r.BatchEntities, 10_000)
	r.BatchBytes = cmp.Or(r.BatchBytes, 8<<20)
	r.BatchInterval = cmp.Or(r.BatchInterval, time.Second)
	if r.Logger == nil {
		r.Logger = j.Client.config.Logger
	}
	if r.Feed == "" {
		r.Feed = redact(r.URL)
	}
	if err := errors.Join(r.checkNewestFirst(), r.checkUntil()); err != nil {
		return nil, err
	}
	if r.OnGap == GapSnapshot && r.SnapshotURL == "" {
		return nil, errors.New("there is no snapshot to start over from: set SnapshotURL")
	}
	if j.KeyPointer != "" {
		p, err := jsonptr.Compile(j.KeyPointer)
		if err != nil {
			return nil, err
		}
		r.key = &p
	}
	return r, nil
}
