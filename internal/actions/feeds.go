package actions

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/feedctl/feedctl/console"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/shell"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
)

// Feeds provides the actions for the feeds of a store; it implements [console.Actions].
type Feeds struct{ Runner }

// command returns a command line of feedctl for a feed of the store.
func (f *Feeds) command(feed string, words ...string) string {
	return shell.Line(append(append([]string{"feedctl"}, words...), feed, "--store", f.StoreName)...)
}

// Snapshot implements [console.Actions].
func (f *Feeds) Snapshot(feed, key string) (console.Action, error) {
	t := &task.SnapshotFromFeed{Feed: feed, Key: key}
	words := []string{"snapshot", "from-feed"}
	if key != "" {
		words = append(words, "--key", key)
	}
	run := f.run(t.Status, func(ctx context.Context, e *task.Env) (r console.Result, err error) {
		made, err := t.Run(ctx, e)
		if err != nil {
			return r, err
		}
		r.Summary = fmt.Sprintf("snapshot %s/%s has %s", made.Name, made.ID, human.Plural(int64(made.Pages), "page", "pages"))
		if made.Entities != nil {
			r.Summary = fmt.Sprintf("snapshot %s/%s has %s", made.Name, made.ID, human.Plural(*made.Entities, "entity", "entities"))
		}
		return r, nil
	})
	return console.Action{Name: "make a snapshot", Command: f.command(feed, words...), Run: run}, t.Check()
}

// Verify implements [console.Actions].
func (f *Feeds) Verify(feed string) (console.Action, error) {
	t := &task.Verify{Feed: feed, From: "beginning"}
	run := f.run(nil, func(ctx context.Context, e *task.Env) (r console.Result, err error) {
		report, err := t.Run(ctx, e)
		if report == nil || err != nil && exit.Status(err) != exit.Invalid {
			return r, err
		}
		for n := range report.Violations {
			r.Findings = append(r.Findings, report.Violations[n].Error())
		}
		r.Omitted = report.Omitted
		found := "no violations"
		if n := len(r.Findings) + r.Omitted; n > 0 {
			found = human.Plural(int64(n), "violation", "violations")
		}
		r.Summary = fmt.Sprintf("%s, %s, %s: %s", human.Plural(int64(report.Pages), "page", "pages"),
			human.Plural(report.Entities, "entity", "entities"), human.Bytes(report.Bytes), found)
		return r, nil
	})
	return console.Action{Name: "verify", Command: f.command(feed, "verify"), Run: run}, errors.Join(layout.CheckName(feed), t.Check())
}

// Prune implements [console.Actions].
func (f *Feeds) Prune(feed string, rules console.PruneRules) (console.Action, error) {
	t := task.Prune{
		Feed: feed, Policy: producer.PrunePolicy{KeepAge: rules.KeepAge, KeepPages: rules.KeepPages}, BeforeSnapshot: rules.BeforeSnapshot,
	}
	dry := t
	dry.Policy.DryRun = true
	run := f.run(nil, func(ctx context.Context, e *task.Env) (r console.Result, err error) {
		shown, err := dry.Run(ctx, e)
		if err != nil {
			return r, err
		}
		r.Summary = summary("would delete", shown)
		if shown.Pages > 0 {
			exactly := t
			exactly.Shown = shown
			confirm := f.prune(exactly, words(rules, false))
			r.Confirm = &confirm
		}
		return r, nil
	})
	return console.Action{Name: "prune: dry run", Command: f.command(feed, words(rules, true)...), Run: run}, dry.Check()
}

// prune returns the action that deletes exactly what a dry run has shown, or nothing.
func (f *Feeds) prune(t task.Prune, words []string) console.Action {
	run := f.run(nil, func(ctx context.Context, e *task.Env) (r console.Result, err error) {
		done, err := t.Run(ctx, e)
		if err != nil {
			return r, err
		}
		r.Summary = summary("deleted", done)
		if done.BytesSwept > 0 {
			r.Summary += "; removed " + human.Bytes(done.BytesSwept) + " that interrupted writes had left in the store"
		}
		return r, nil
	})
	about := fmt.Sprintf("This deletes exactly %s (%s), and cannot be undone. If anything has changed since the dry run, nothing is deleted.",
		human.Plural(t.Shown.Pages, "page", "pages"), human.Bytes(t.Shown.Bytes))
	return console.Action{Name: "prune", About: about, Command: f.command(t.Feed, words...), Run: run}
}

// words returns the words of the command "prune" with the given rules.
func words(rules console.PruneRules, dry bool) []string {
	words := []string{"prune"}
	if age := units.Duration(rules.KeepAge); age != 0 {
		words = append(words, "--keep-age", age.String())
	}
	if rules.KeepPages != 0 {
		words = append(words, "--keep-pages", strconv.FormatInt(rules.KeepPages, 10))
	}
	if rules.BeforeSnapshot != "" {
		words = append(words, "--before-snapshot", rules.BeforeSnapshot)
	}
	if dry {
		words = append(words, "--dry-run")
	}
	return words
}

// summary describes the result of pruning.
func summary(verb string, p *task.Pruned) string {
	left := fmt.Sprintf("pages %d to %d remain", p.Floor, p.Newest)
	if p.Floor == p.Newest {
		left = fmt.Sprintf("page %d remains", p.Newest)
	}
	text := fmt.Sprintf("%s %s (%s); %s", verb, human.Plural(p.Pages, "page", "pages"), human.Bytes(p.Bytes), left)
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}
