package jobscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/suggest"
	"github.com/feedctl/feedctl/jobs"
)

// A selection holds the flags that select the jobs for a command.
type selection struct {
	namespace string
	states    []string
	kind      string
	origin    string
	labels    []string
	all       bool // required if there are no names and none of the filters above
}

// flags adds the flags for filters to a command.
func (s *selection) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	namespaceFlag(cmd, &s.namespace, "only jobs of this `NAMESPACE`; names without a namespace are in it, too")
	flags.StringSliceVar(&s.states, "state", nil, "only jobs in this `STATE`, or one of several: "+stateNames())
	flags.StringVar(&s.kind, "kind", "", "only jobs of this `KIND`, such as \"bridge couchdb\"")
	flags.StringVar(&s.origin, "origin", "", "only jobs that use this server: `HOST`, HOST:PORT or https://HOST:PORT")
	flags.StringArrayVarP(&s.labels, "selector", "l", nil, "only jobs with the label `NAME=VALUE`; may be repeated")
}

func namespaceFlag(cmd *cobra.Command, namespace *string, usage string) {
	cmd.Flags().StringVarP(namespace, "namespace", "n", "", usage)
}

func stateNames() string {
	names := make([]string, 0, len(jobs.States()))
	for _, state := range jobs.States() {
		names = append(names, string(state))
	}
	return strings.Join(names, ", ")
}

// filter returns the filter that the flags describe.
func (s *selection) filter() (jobs.Filter, error) {
	f := jobs.Filter{Namespace: s.namespace, Kind: s.kind, Origin: s.origin, Labels: map[string]string{}}
	for _, name := range s.states {
		state := jobs.State(name)
		if !slices.Contains(jobs.States(), state) {
			return f, exit.Usagef("--state %q: want one of %s%s", name, stateNames(), suggest.DidYouMean(name, strings.Split(stateNames(), ", "), ""))
		}
		f.States = append(f.States, state)
	}
	for _, label := range s.labels {
		name, value, ok := strings.Cut(label, "=")
		if !ok || name == "" {
			return f, exit.Usagef("--selector %q: want NAME=VALUE", label)
		}
		f.Labels[name] = value
	}
	return f, nil
}

// ids returns the IDs of the jobs that are named in the arguments of a command or, if there are none,
// selected by flags. Flags do not select jobs for which skips, if it is not nil, returns true.
func (s *selection) ids(ctx context.Context, store *jobs.Scheduler, args []string, skips func(*jobs.Document) bool) (ids []string, err error) {
	filtered := len(s.states) > 0 || s.kind != "" || s.origin != "" || len(s.labels) > 0
	switch {
	case len(args) > 0 && (filtered || s.all):
		return nil, exit.Usagef("name jobs, or select them with --all, --state, --kind, --origin and --selector, but not both")
	case len(args) > 0:
		for _, arg := range args {
			j, err := get(ctx, store, arg, s.namespace)
			if err != nil {
				return nil, err
			}
			ids = append(ids, j.Document.ID())
		}
		return ids, nil
	case !filtered && !s.all:
		return nil, exit.Usagef("name jobs, or select them with --all, --state, --kind, --origin or --selector")
	}
	f, err := s.filter()
	if err != nil {
		return nil, err
	}
	err = each(ctx, store, f, func(j *jobs.Listed) {
		if skips == nil || !skips(&j.Document) {
			ids = append(ids, j.Document.ID())
		}
	})
	return ids, err
}

// each calls do for the jobs that a filter selects.
func each(ctx context.Context, store *jobs.Scheduler, f jobs.Filter, do func(*jobs.Listed)) error {
	_, err := eachUpTo(ctx, store, f, 0, do)
	return err
}

// eachUpTo calls do for the jobs that a filter selects, at most limit of them if limit is not 0. If
// there may be more, it returns the ID of the last job.
func eachUpTo(ctx context.Context, store *jobs.Scheduler, f jobs.Filter, limit int, do func(*jobs.Listed)) (next string, err error) {
	for left := limit; ; {
		f.Limit = jobs.MaxLimit
		if limit > 0 {
			f.Limit = min(left, jobs.MaxLimit)
		}
		page, err := store.List(ctx, f)
		if err != nil {
			return "", err
		}
		for n := range page.Jobs {
			do(&page.Jobs[n])
		}
		left -= len(page.Jobs)
		if page.Next == "" || limit > 0 && left <= 0 {
			return page.Next, nil
		}
		f.After = page.Next
	}
}

// find opens the database, and returns the ID of the job that an argument names.
func (c *commands) find(ctx context.Context, arg, namespace string) (store *jobs.Scheduler, id string, err error) {
	if store, err = c.view(ctx); err != nil {
		return nil, "", err
	}
	j, err := get(ctx, store, arg, namespace)
	if err != nil {
		return nil, "", err
	}
	return store, j.Document.ID(), nil
}

// get returns the job that an argument names. If there is none, the error suggests a similar one, if
// possible.
func get(ctx context.Context, store *jobs.Scheduler, arg, namespace string) (*jobs.Job, error) {
	name := id(arg, namespace)
	j, err := store.Get(ctx, name)
	if errors.Is(err, jobs.ErrNoJob) {
		return nil, fmt.Errorf("%w%s", err, similar(ctx, store, name))
	}
	return j, err
}

// similar returns a question that suggests another job, to be added to an error, or "".
func similar(ctx context.Context, store *jobs.Scheduler, name string) string {
	namespace, base, _ := strings.Cut(name, "/")
	var names []string
	// After an error, there is no suggestion.
	_ = each(ctx, store, jobs.Filter{}, func(j *jobs.Listed) {
		d := &j.Document
		if d.Namespace == namespace || d.Name == base {
			names = append(names, d.ID())
		}
	})
	if question := suggest.DidYouMean(name, names, ""); question != "" {
		return question
	}
	for _, other := range names { // suggest the same name in another namespace
		if strings.HasSuffix(other, "/"+base) {
			return fmt.Sprintf("; did you mean %q?", other)
		}
	}
	return ""
}

// A verb is a command that changes the selected jobs.
type verb struct {
	use, short, long, example string

	past, already string // "paused", "paused already"
	do            func(s *jobs.Scheduler, ctx context.Context, ids ...string) (int, error)
	// skips returns true for jobs that are not selected by flags, only by name. If it is nil, there
	// are no such jobs.
	skips func(*jobs.Document) bool
}

func newPause(c *commands) *cobra.Command {
	return newVerb(c, verb{
		use:   "pause",
		short: "Stop jobs until they are resumed",
		long: `Pause stops jobs at their next checkpoints. They stay paused until "jobs resume", or until
"jobs apply" changes "paused" in their files.`,
		example: `  feedctl jobs pause shop/orders
  feedctl jobs pause --origin db.example.org`,
		past: "paused", already: "is paused or has ended already", do: (*jobs.Scheduler).Pause,
	})
}

func newResume(c *commands) *cobra.Command {
	return newVerb(c, verb{
		use:   "resume",
		short: "Let paused jobs run again",
		long:  `Resume lets paused jobs run again, from where they stopped.`,
		example: `  feedctl jobs resume shop/orders
  feedctl jobs resume --all -n shop`,
		past: "resumed", already: "is not paused", do: (*jobs.Scheduler).Resume,
	})
}

func newRestart(c *commands) *cobra.Command {
	return newVerb(c, verb{
		use:   "restart",
		short: "Run jobs now, whatever they wait for",
		long: `Restart makes jobs due at once, whether they wait after an error, are idle, have failed or
are completed, and forgets their errors. Jobs that run or are paused stay as they are. No
job starts from scratch: each continues at its position.`,
		example: `  feedctl jobs restart shop/orders
  feedctl jobs restart --state crashing,failed --origin db.example.org`,
		past: "restarted", already: "runs or is paused", do: (*jobs.Scheduler).Restart,
	})
}

func newCancel(c *commands) *cobra.Command {
	return newVerb(c, verb{
		use:   "cancel",
		short: "Cancel jobs before they are done",
		long: `Cancel stops jobs that run to an end, such as those of "jobs run", and those that wait to
begin. They then count as failed, and run again only after "jobs restart" or a change of
their files; a job with a schedule waits for its next time. What they have written stays.

This differs from "jobs pause", after which a job continues with "jobs resume", and from
"jobs delete", which also removes the job and its history, as CouchDB's cancel does. A job
that follows has no end: pause or delete it. Flags do not select such jobs.`,
		example: `  feedctl jobs cancel shop/run-4f5a0c9d1e2b3a47
  feedctl jobs cancel --kind verify --state running`,
		past: "cancelled", already: "is not running, or has already ended", do: (*jobs.Scheduler).Cancel,
		skips: func(d *jobs.Document) bool { return d.Follow },
	})
}

func newVerb(c *commands, v verb) *cobra.Command {
	var s selection
	cmd := &cobra.Command{
		Use:     v.use + " [NAME…]",
		Short:   v.short,
		Long:    v.long + "\n\nThe jobs are named, or selected by flags; --all selects all. They are changed 500 at a time:\nafter Ctrl-C, repeat the command for the rest." + exit.Help(exit.NotFound, exit.Interrupted),
		Example: v.example,
		RunE: func(cmd *cobra.Command, args []string) error {
			return explain(runVerb(cmd.Context(), c, &s, v, args))
		},
		ValidArgsFunction: c.completeNames(-1),
	}
	s.flags(cmd)
	cmd.Flags().BoolVar(&s.all, "all", false, "all jobs, or all of the namespace")
	return cmd
}

func runVerb(ctx context.Context, c *commands, s *selection, v verb, args []string) error {
	store, err := c.open(ctx)
	if err != nil {
		return err
	}
	ids, err := s.ids(ctx, store, args, v.skips)
	if err != nil {
		return err
	}
	changed, failed := v.do(store, ctx, ids...)
	if changed == 0 && failed != nil {
		return failed
	}
	result := selectedJSON{Jobs: ids, Changed: int64(changed)}
	err = c.Print(result, func(w io.Writer) error {
		switch {
		case len(ids) == 1 && changed == 0:
			return lines(w, ids[0]+" "+v.already)
		case len(ids) == 1:
			return lines(w, v.past+" "+ids[0])
		}
		return lines(w, fmt.Sprintf("%s %d of %s", v.past, changed, human.Plural(int64(len(ids)), "job", "jobs")))
	})
	return cmp.Or(err, failed)
}

func newDelete(c *commands) *cobra.Command {
	var s selection
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete [NAME…]",
		Short: "Delete jobs, and keep what they have written",
		Long: `Delete removes jobs and their history. Those that run are stopped at their next
checkpoints. Feeds, sinks and the positions in them stay: a job with the same source and
target continues there.

The jobs are named, or selected by flags; --all selects all. If they are selected, it asks
for confirmation; without a terminal it needs --yes. They are deleted 500 at a time: after
Ctrl-C, repeat the command for the rest.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs delete shop/orders
  feedctl jobs delete --state completed --yes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return explain(runDelete(cmd.Context(), c, &s, yes, args))
		},
		ValidArgsFunction: c.completeNames(-1),
	}
	s.flags(cmd)
	cmd.Flags().BoolVar(&s.all, "all", false, "all jobs, or all of the namespace")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return cmd
}

func runDelete(ctx context.Context, c *commands, s *selection, yes bool, args []string) error {
	store, err := c.open(ctx)
	if err != nil {
		return err
	}
	ids, err := s.ids(ctx, store, args, nil)
	if err != nil {
		return err
	}
	if len(args) == 0 && len(ids) > 0 && !yes {
		if err := confirmDelete(ctx, c, ids, "\"feedctl jobs list\""); err != nil {
			return err
		}
	}
	result := selectedJSON{Jobs: ids, Changed: int64(len(ids))}
	text := "deleted " + human.Plural(int64(len(ids)), "job", "jobs")
	if len(ids) == 1 {
		text = "deleted " + ids[0]
		j, err := store.Get(ctx, ids[0])
		if err != nil {
			return err
		}
		if j.Document.Target != "" {
			text += "; what it has written to " + j.Document.Target + " stays"
		}
	}
	if err := store.Delete(ctx, ids...); err != nil {
		return err
	}
	return c.Print(result, func(w io.Writer) error { return lines(w, text) })
}
