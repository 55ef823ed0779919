package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// A Sink stores entities: in a database, a directory or a file. It keeps its position
// in the feed together with the data, so that each entity takes effect exactly once
// even after a crash.
//
// A [Job] is the only user of its Sink and calls it from one goroutine at a
// time.
type Sink interface {
	// Position returns the last position that was committed, or the zero Position.
	Position(ctx context.Context) (feed.Position, error)
	// Begin starts a batch. There is at most one batch at a time: the previous batch has been
	// committed or rolled back.
	Begin(ctx context.Context) (Batch, error)
	// Close releases the sink's resources. A batch that is still open is lost, as
	// it is when the process crashes.
	Close() error
}

// ErrSinkUnavailable is matched by an error of a [Sink] whose server is unavailable at the moment.
// If the Client of a [Job] retries without limit, which is the default with Follow, the Job then
// calls Position until it succeeds, and continues from that position.
var ErrSinkUnavailable = errors.New("the server is not available")

// A Batch is a run of entities that a [Sink] makes durable together. If it has a method
// Place(*Entity), the method is called before each entity is applied, with the page and offset
// of the entity. Place must not keep its argument.
type Batch interface {
	// Apply applies one entity. It reads Body or Stream before it returns, and must not keep e, its
	// Body or Stream, or the array of its Header. It wraps an error of e.Stream, so that the job can
	// distinguish it from an error of the sink.
	Apply(ctx context.Context, e *feed.Entity) error
	// Commit makes everything that was applied, and the position, durable together. A batch without
	// entities is allowed, and only moves the position. After an error, the outcome is unknown, and
	// the caller calls [Sink.Position]. Commit must use its own ctx, not that of Begin or Apply,
	// since an interrupted [Job] gives Commit more time.
	Commit(ctx context.Context, at feed.Position) error
	// Rollback undoes the batch. After Commit it has no effect.
	Rollback(ctx context.Context) error
}

// placed is implemented by a [Batch] that records where entities are.
type placed interface {
	Place(e *Entity)
}

// atLeastOnce is implemented by a sink that cannot keep data and position together, so it may
// receive an entity again after a crash.
type atLeastOnce interface {
	AtLeastOnce() bool
}

// rejecting is implemented by a sink that rejects entities and continues without them. The counts
// begin when the sink is opened.
type rejecting interface {
	Rejected() Rejected
}

// Rejected counts the entities that a sink rejected. A sink reports them through a method Rejected()
// Rejected.
type Rejected struct {
	// Quarantined is how many entities the sink has put into quarantine.
	Quarantined int64 `json:"quarantined"`
	// Refused is how many entities were refused by the target of the sink.
	Refused int64 `json:"refused"`
	// Refusals are a few examples of refused entities, from the first commit that had any.
	Refusals []Refusal `json:"refusals,omitempty"`
}

// A Refusal describes an entity that was refused by the target of a sink.
type Refusal struct {
	ID     string    `json:"id"` // in the target
	Rev    string    `json:"rev,omitempty"`
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"` // as returned by the target, truncated if long
}

// Total returns how many entities the sink rejected.
func (r Rejected) Total() int64 { return r.Quarantined + r.Refused }

// since returns the difference between r and an earlier count.
func (r Rejected) since(before Rejected) Rejected {
	r.Quarantined -= before.Quarantined
	r.Refused -= before.Refused
	if r.Refused == 0 {
		r.Refusals = nil
	}
	return r
}

// rejected returns the counts of entities that s has rejected since it was opened.
func rejected(s Sink) Rejected {
	if r, ok := s.(rejecting); ok {
		return r.Rejected()
	}
	return Rejected{}
}

// AtLeastOnce reports whether s may receive an entity again after a crash. A sink reports this
// through a method AtLeastOnce() bool.
func AtLeastOnce(s Sink) bool {
	a, ok := s.(atLeastOnce)
	return ok && a.AtLeastOnce()
}
