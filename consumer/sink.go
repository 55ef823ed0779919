package consumer

import (
	"context"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// A Sink is where entities go: a database, a directory, a file. It keeps its
// position in the feed together with the data, so that each entity takes
// effect exactly once whatever crashes.
//
// A [Job] is the only user of its Sink and calls it from one goroutine at a
// time.
type Sink interface {
	// Position returns what was committed last; the zero Position if nothing
	// was.
	Position(ctx context.Context) (feed.Position, error)
	// Begin starts a batch. There is at most one at a time: the one before has
	// been committed or rolled back.
	Begin(ctx context.Context) (Batch, error)
	// Close releases what the sink holds. A batch that is still open is lost,
	// as it is if the process dies.
	Close() error
}

// A Batch is a run of entities that a [Sink] makes durable together.
type Batch interface {
	// Apply applies one entity. It reads Body or Stream before it returns and
	// keeps neither, nor e, nor e.Header's array. An error of e.Stream is
	// returned wrapped, so that it can be told from an error of the sink.
	Apply(ctx context.Context, e *feed.Entity) error
	// Commit makes everything applied, and the position, durable together. A
	// batch without entities is allowed: it moves the position. After an error
	// the outcome is unknown, and the caller asks [Sink.Position]. It ends with ctx,
	// and not with that of Begin or Apply: a [Job] that is interrupted gives it some
	// time more.
	Commit(ctx context.Context, at feed.Position) error
	// Rollback undoes the batch. It is safe after Commit, when it does
	// nothing.
	Rollback(ctx context.Context) error
}

// A sink that cannot keep data and position together, and so may be given an
// entity again after a crash, implements this method and returns true.
type atLeastOnce interface {
	AtLeastOnce() bool
}

// A sink that does not take every entity, and continues without those that do not fit,
// implements this method. It counts from when the sink was opened.
type rejecting interface {
	Rejected() Rejected
}

// Rejected counts the entities that a sink did not take. A sink reports them with a
// method Rejected() Rejected.
type Rejected struct {
	// Quarantined is how many entities the sink has put aside, with the reason.
	Quarantined int64
	// Refused is how many entities the target of the sink has refused, so that it does
	// not have them.
	Refused int64
	// Refusals are a few examples of these, from the first commit that had any.
	Refusals []Refusal
}

// A Refusal is an entity that the target of a sink has refused.
type Refusal struct {
	ID     string    `json:"id"` // in the target
	Rev    string    `json:"rev,omitempty"`
	Time   time.Time `json:"time"`
	Reason string    `json:"reason"` // in the words of the target, cut if they are long
}

// Total returns how many entities the sink did not take.
func (r Rejected) Total() int64 { return r.Quarantined + r.Refused }

// since returns what was rejected after before was taken.
func (r Rejected) since(before Rejected) Rejected {
	r.Quarantined -= before.Quarantined
	r.Refused -= before.Refused
	if r.Refused == 0 {
		r.Refusals = nil
	}
	return r
}

// rejected returns what s did not take since it was opened.
func rejected(s Sink) Rejected {
	if r, ok := s.(rejecting); ok {
		return r.Rejected()
	}
	return Rejected{}
}

// AtLeastOnce reports whether s may be given an entity again after a crash. A
// sink says so with a method AtLeastOnce() bool.
func AtLeastOnce(s Sink) bool {
	a, ok := s.(atLeastOnce)
	return ok && a.AtLeastOnce()
}
