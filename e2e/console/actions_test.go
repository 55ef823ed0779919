package console_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/feedctl/feedctl/console"
	"github.com/feedctl/feedctl/jobs"
)

// actions implements the actions of a console. They only record that they were run.
type actions struct {
	mu   sync.Mutex
	done []string // "verify FEED" and the like
}

func (a *actions) action(name, target string, result console.Result) console.Action {
	return console.Action{
		Name: name, About: "It does nothing but say so.", Command: fmt.Sprintf("feedctl %s %s --store file:/srv/feeds", name, target),
		Run: func(context.Context, func(string)) (console.Result, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.done = append(a.done, name+" "+target)
			return result, nil
		},
	}
}

// all returns the actions that were run.
func (a *actions) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.done...)
}

// Snapshot implements console.Actions.
func (a *actions) Snapshot(feed, _ string) (console.Action, error) {
	return a.action("snapshot", feed, console.Result{Summary: "snapshot has 32 entities"}), nil
}

// Prune implements console.Actions.
func (a *actions) Prune(feed string, _ console.PruneRules) (console.Action, error) {
	confirm := a.action("delete 12 pages", feed, console.Result{Summary: "12 pages deleted"})
	return a.action("prune", feed, console.Result{
		Summary: "12 pages with 1,200 entities would be deleted, 3 pages would be kept", Confirm: &confirm,
	}), nil
}

// Verify implements console.Actions.
func (a *actions) Verify(feed string) (console.Action, error) {
	return a.action("verify", feed, console.Result{
		Summary:  "15 pages, 1,500 entities: 2 violations",
		Findings: []string{"page 7: Last-Modified of part 12 is before that of part 11", "page 9: the link with rel=\"prev\" leads to page 7"},
		Remedy:   "feedctl repair " + feed,
	}), nil
}

// Offered implements console.JobActions.
func (a *actions) Offered(d *jobs.Document) []console.Action {
	return []console.Action{a.action("retry quarantine", d.ID(), console.Result{Summary: "3 entities were applied"})}
}
