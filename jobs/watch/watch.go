// Package watch wakes jobs when there is something for them to do, so that a job that has
// caught up need not look for itself.
//
// A [Source] watches one server for all jobs that wait for its changes. It is run by a node
// as long as there are such jobs. A source may wake jobs too often, but must not lose a
// change: it compares the states of names with those saved with the jobs, and saves are made
// in the transaction that wakes the jobs.
package watch

import (
	"context"
	"log/slog"
)

// A Source knows how to watch one type of servers. Its methods may be called concurrently,
// for different servers.
type Source interface {
	// Watch reports changes on a server until ctx ends or there is an error. It is called again
	// after a pause then. It needs memory in proportion to the names, but not a goroutine or a
	// connection for each.
	Watch(ctx context.Context, w *Watched) error
}

// Watched is a server that a [Source] is to watch.
type Watched struct {
	Server     string // as in jobs.Watch
	Credential string // env:NAME, file:PATH or ""
	// Position is what Checked was last called with, by any node; "" if it was not.
	Position string
	Jobs     Jobs
	Logger   *slog.Logger
}

// Jobs are the jobs that wait for changes of a server. The methods may be called concurrently.
type Jobs interface {
	// States returns the names that jobs wait for, with the state that Changed was last called
	// with; "" if it was not for each of the jobs. The set of names may change at any time. The
	// jobs of a name that was not there before have checked it themselves.
	States(ctx context.Context) (map[string]string, error)
	// Changed wakes the jobs that wait for the names, except those that were woken with the same
	// state before. The states are opaque strings, such as an ETag or a sequence number; "" always
	// wakes. Names that no job waits for are ignored.
	Changed(ctx context.Context, states map[string]string) error
	// Checked notes that Changed has been called for all changes up to now, and up to the given
	// position, if there are positions. A source calls it after each comparison of all names,
	// and from time to time while there are no changes. If it does not for ten minutes, jobs are
	// taken to be unwatched. The position is saved within a minute.
	Checked(position string)
}
