// Package watch wakes jobs when there is something to do, so that jobs that have caught up need not
// poll.
//
// A [Source] watches one server for all jobs that wait for its changes. A node runs the source as long
// as there are such jobs. A source may wake jobs too often, but must not lose a change: it compares the
// states of names with the states saved with the jobs, and a new state is saved in the transaction that
// wakes the jobs.
package watch

import (
	"context"
	"log/slog"
)

// A Source watches the servers of one type. Its methods may be called concurrently, for different
// servers.
type Source interface {
	// Watch reports the changes on a server until ctx ends or an error occurs. After an error, it is
	// called again after a pause. Watch may use memory in proportion to the number of names, but not a
	// goroutine or a connection for each name.
	Watch(ctx context.Context, w *Watched) error
}

// Watched is a server that a [Source] is to watch.
type Watched struct {
	Server     string // as in jobs.Watch
	Credential string // env:NAME, file:PATH or ""
	// Position is the position with which Checked was last called, on any node, or "".
	Position string
	Jobs     Jobs
	Logger   *slog.Logger
}

// Jobs represents the jobs that wait for changes on a server. The methods may be called
// concurrently.
type Jobs interface {
	// States returns the names that jobs wait for, with their states. The state of a name is the one
	// with which Changed last woke all jobs of the name, or "". The set of names may change at any
	// time. The jobs of a name that is new in the set have already checked it themselves.
	States(ctx context.Context) (map[string]string, error)
	// Changed wakes the jobs that wait for the names, except those that were woken with the same
	// state before. The states are opaque strings, such as an ETag or a sequence number; "" always
	// wakes. Names that no job waits for are ignored.
	Changed(ctx context.Context, states map[string]string) error
	// Checked records that Changed has been called for all changes up to now, and up to position, if
	// the source has positions. A source calls it after each comparison of all names, and from time to
	// time while there are no changes. If it is not called for ten minutes, the jobs are taken to be
	// unwatched. The position is saved within a minute.
	Checked(position string)
}
