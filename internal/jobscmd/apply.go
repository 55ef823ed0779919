package jobscmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/jobs"
)

type applyFlags struct {
	files []string
	yes   bool
	jobs.ApplyOptions
}

func newApply(c *commands) *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use:   "apply -f PATH…",
		Short: "Make the stored jobs match files",
		Long: `Apply reads jobs from YAML files, or from all files in a directory that end with .yaml or
.yml, and makes the stored jobs match: it creates those that are new and changes those that
differ. It prints a line for each of them, and the fields that have changed. A running
job that has changed is stopped at its next checkpoint and continues with its new document.

Either all changes are made, or none: if anything is wrong, it prints all errors, with file
and line, and exits with status 2.

With --prune, it deletes the jobs of the files' namespaces that are not in the files. A file
with "jobs: []" has a namespace without jobs. With --prune-all, it deletes the jobs of all
namespaces that are not in the files. What they have written stays. It asks for
confirmation; without a terminal it needs --yes.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs apply -f jobs.yaml --dry-run
  feedctl jobs apply -f jobs/ --prune --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return explain(runApply(cmd.Context(), c, &f)) },
	}
	addFiles(cmd, &f.files)
	cmd.Flags().BoolVar(&f.Prune, "prune", false, "delete the jobs of the files' namespaces that are not in the files")
	cmd.Flags().BoolVar(&f.PruneAll, "prune-all", false, "delete the jobs of all namespaces that are not in the files")
	cmd.Flags().BoolVar(&f.DryRun, "dry-run", false, "change nothing, print what would change")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask before deleting jobs")
	return cmd
}

func addFiles(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringArrayVarP(files, "file", "f", nil, "read jobs from `PATH`: a YAML file, a directory, or - for standard input; may be repeated")
	// This fails only if the flag does not exist.
	_ = cmd.MarkFlagRequired("file")
}

func runApply(ctx context.Context, c *commands, f *applyFlags) error {
	open := c.create
	switch {
	case f.DryRun:
		open = c.viewAny
	case c.db == inMemory:
		open = c.open // refuses a database in memory, which would forget the jobs at once
	}
	files, store, err := c.read(ctx, jobs.ReadOptions{Stdin: c.In}, f.files, open, &f.ApplyOptions)
	if err == nil && (f.Prune || f.PruneAll) && !f.DryRun && !f.yes {
		err = confirmPrune(ctx, c, store, files, f.ApplyOptions)
	}
	if err != nil {
		return c.invalid(f.DryRun, err)
	}
	return c.apply(ctx, store, files, f.ApplyOptions)
}

// read reads files of jobs, and opens the database so that they can be applied. If the files are invalid, the
// error lists all problems, including conflicts with the stored jobs.
func (c *commands) read(ctx context.Context, r jobs.ReadOptions, paths []string, open func(context.Context) (*jobs.Scheduler, error), o *jobs.ApplyOptions) (*jobs.Files, *jobs.Scheduler, error) {
	files, err := c.kinds.Read(r, paths...)
	if files != nil {
		o.Namespaces = files.Namespaces
	}
	switch {
	case err == nil:
		store, err := open(ctx)
		return files, store, err
	case files == nil:
		return nil, nil, err
	}
	store, viewErr := c.viewAny(ctx)
	if viewErr != nil {
		return nil, nil, err
	}
	dry := *o
	dry.DryRun = true
	if _, all := store.Apply(ctx, files.Documents, dry); errors.Is(all, jobs.ErrInvalid) {
		err = files.Locate(all)
	}
	return nil, nil, err
}

// apply applies files, and prints the changes.
func (c *commands) apply(ctx context.Context, store *jobs.Scheduler, files *jobs.Files, o jobs.ApplyOptions) error {
	changes, err := store.Apply(ctx, files.Documents, o)
	if err != nil {
		return c.invalid(o.DryRun, files.Locate(err))
	}
	result := newApplied(changes, o.DryRun)
	return c.Print(result, result.write)
}

// invalid returns err. With --json, it first prints the problems that err contains, if any.
func (c *commands) invalid(dryRun bool, err error) error {
	problems, ok := errors.AsType[jobs.InvalidError](err)
	if !ok || !c.JSON {
		return err
	}
	result := newApplied(nil, dryRun)
	result.Problems = problems
	if printErr := c.Print(result, result.write); printErr != nil {
		return printErr
	}
	return err
}

// confirmPrune asks whether to delete the jobs that are not in the files.
func confirmPrune(ctx context.Context, c *commands, store *jobs.Scheduler, files *jobs.Files, o jobs.ApplyOptions) error {
	o.DryRun = true
	changes, err := store.Apply(ctx, files.Documents, o)
	if err != nil {
		return files.Locate(err)
	}
	var names []string
	for _, change := range changes {
		if change.Action == jobs.Deleted {
			names = append(names, change.Job)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return confirmDelete(ctx, c, names, "--dry-run")
}

// confirmDelete asks whether to delete jobs. If there is no terminal, it fails; the error names view, the flag
// or command that shows the jobs.
func confirmDelete(ctx context.Context, c *commands, names []string, view string) error {
	const most = 10
	shown := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		shown += fmt.Sprintf(" and %d more", len(names)-most)
	}
	yes, err := c.Confirm(ctx, fmt.Sprintf("delete %s (%s)?", human.Plural(int64(len(names)), "job", "jobs"), shown))
	switch {
	case errors.Is(err, app.ErrNoTerminal):
		return exit.Usagef("delete %s: %w: use --yes, or %s to see which", human.Plural(int64(len(names)), "job", "jobs"), err, view)
	case err != nil:
		return fmt.Errorf("delete jobs: nothing was changed: %w", err)
	case !yes:
		return errors.New("delete jobs: not confirmed, nothing was changed")
	}
	return nil
}

// newApplied returns the result that "jobs apply" prints for changes.
func newApplied(changes []jobs.Change, dryRun bool) *appliedJSON {
	a := &appliedJSON{DryRun: dryRun, Changes: []changeJSON{}}
	count := map[jobs.Action]*int64{jobs.Created: &a.Created, jobs.Changed: &a.Changed, jobs.Unchanged: &a.Unchanged, jobs.Deleted: &a.Deleted}
	for _, c := range changes {
		*count[c.Action]++
		if c.Action == jobs.Unchanged {
			continue
		}
		line := changeJSON{Job: c.Job, Action: c.Action}
		if c.Action != jobs.Deleted {
			line.Fields = difference(c.Before, c.After)
		}
		a.Changes = append(a.Changes, line)
	}
	return a
}

// created returns a few words that say what a created job does, to be printed after its name. For other
// changes, it returns "".
func (c *changeJSON) created() string {
	if c.Action != jobs.Created {
		return ""
	}
	of := map[string]string{}
	for _, f := range c.Fields {
		of[f.Field] = f.After
	}
	text := ": " + of["kind"]
	for _, name := range []string{"source", "target"} {
		if of[name] != "" {
			text += " " + of[name]
		}
	}
	return human.Printable(text)
}

// write writes the changes in a form similar to a diff.
func (a *appliedJSON) write(w io.Writer) error {
	var b strings.Builder
	for _, c := range a.Changes {
		sign := map[jobs.Action]string{jobs.Created: "+", jobs.Changed: "~", jobs.Deleted: "-"}[c.Action]
		fmt.Fprintf(&b, "%s %s%s\n", sign, c.Job, c.created())
		for _, f := range c.Fields {
			if c.Action == jobs.Created {
				break // the file has them
			}
			if f.Before != "" {
				fmt.Fprintf(&b, "    - %s: %s\n", f.Field, f.Before)
			}
			if f.After != "" {
				fmt.Fprintf(&b, "    + %s: %s\n", f.Field, f.After)
			}
		}
	}
	would := ""
	if a.DryRun {
		would = "would be "
	}
	fmt.Fprintf(&b, "%s %screated, %d changed, %d deleted; %d unchanged\n", human.Plural(a.Created, "job", "jobs"), would, a.Changed, a.Deleted, a.Unchanged)
	_, err := io.WriteString(w, b.String())
	return err
}

func newValidate(c *commands) *cobra.Command {
	var files []string
	cmd := &cobra.Command{
		Use:   "validate -f PATH…",
		Short: "Check files of jobs, without a database",
		Long: `Validate prints all errors in files of jobs, with file and line, and exits with status 2 if
there are any. It uses neither the database nor the network. "jobs apply --dry-run" also
compares the files with the stored jobs, which jobs of the files may name in "after".` + exit.Help(exit.NotFound),
		Example: `  feedctl jobs validate -f jobs.yaml
  feedctl jobs validate -f jobs/ --json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return explain(runValidate(c, files)) },
	}
	addFiles(cmd, &files)
	return cmd
}

func runValidate(c *commands, paths []string) error {
	files, err := c.kinds.Read(jobs.ReadOptions{Stdin: c.In}, paths...)
	problems, invalid := errors.AsType[jobs.InvalidError](err)
	if err != nil && !(invalid && c.JSON) {
		return err
	}
	result := validatedJSON{Problems: problems}
	if !invalid {
		result.Problems, result.Jobs = []jobs.Problem{}, int64(len(files.Documents))
	}
	if printErr := c.Print(result, func(w io.Writer) error { return lines(w, human.Plural(result.Jobs, "job", "jobs")+": no problems") }); printErr != nil {
		return printErr
	}
	return err
}
