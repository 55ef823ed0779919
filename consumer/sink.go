package consumer

import (
	"context"

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
	// the outcome is unknown, and the caller asks [Sink.Position].
	Commit(ctx context.Context, at feed.Position) error
	// Rollback undoes the batch. It is safe after Commit, when it does
	// nothing.
	Rollback() error
}

// A sink that cannot keep data and position together, and so may be given an
// entity again after a crash, implements this method and returns true.
type atLeastOnce interface {
	AtLeastOnce() bool
}

// A sink that does not take every entity, and continues without those that do not fit,
// implements this method. It returns how many these were since the sink was opened.
type rejecting interface {
	Rejected() int64
}

// rejected returns how many entities s did not take since it was opened.
func rejected(s Sink) int64 {
	if r, ok := s.(rejecting); ok {
		return r.Rejected()
	}
	return 0
}

// AtLeastOnce reports whether s may be given an entity again after a crash. A
// sink says so with a method AtLeastOnce() bool.
func AtLeastOnce(s Sink) bool {
	a, ok := s.(atLeastOnce)
	return ok && a.AtLeastOnce()
}
