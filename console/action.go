package console

import (
	"context"
	"time"
)

// An Action does what a command does, in the background of the console.
type Action struct {
	// Name is a verb, such as "verify".
	Name string
	// About says in a few sentences what the action does, for the person who is asked to confirm it.
	About string
	// Command is the equivalent command line, for a POSIX shell, without secrets.
	Command string
	// Run carries out the action. It may call progress to report how far it has come. If ctx ends, Run stops, and
	// leaves the same state behind as the command when it is interrupted.
	Run func(ctx context.Context, progress func(text string)) (Result, error)
}

// A Result is what an action has done or found.
type Result struct {
	// Summary is a sentence without a capital letter at the start or a full stop at the end.
	Summary string
	// Findings are the problems that the action has found. The console keeps the first 50 of them, and 500 bytes of
	// each.
	Findings []string
	// Omitted is how many findings there are besides Findings.
	Omitted int
	// Remedy says what can be done about an error or the findings.
	Remedy string
	// Confirm is an action that the result prepares, such as the deletion of what was found. It is carried out only if
	// a person starts it within an hour.
	Confirm *Action
}

// Actions makes the actions that the console offers for the feeds of its store.
type Actions interface {
	// Snapshot makes a snapshot of the state of a feed. The key is a JSON Pointer to the key of an
	// entity in its body, for feeds without Content-Location; otherwise it is empty.
	Snapshot(feed, key string) (Action, error)
	// Prune finds out which pages of a feed the rules would delete, but deletes none. The Confirm action of the result
	// deletes exactly those pages, or none.
	Prune(feed string, rules PruneRules) (Action, error)
	// Verify checks a feed against the specification.
	Verify(feed string) (Action, error)
}

// PruneRules say which pages of a feed are kept: a page is kept if any of the rules keeps it. At least one rule is
// set.
type PruneRules struct {
	KeepAge        time.Duration // keep pages with an entity younger than this
	KeepPages      int64         // keep this many of the newest pages
	BeforeSnapshot string        // NAME or NAME/ID: keep what is not in the snapshot
}
