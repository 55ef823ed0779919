package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/reconcile"
)

func newReconcile(a *app.App) *cobra.Command {
	var t task.Reconcile
	c := &cobra.Command{
		Use:   "reconcile URL|FEED|STORE#FEED --into SINK",
		Short: "Check that a copy matches its feed, and repair it",
		Long: `Reconcile compares what a sink has with the newest state digest of its feed, which
"feedctl digest" makes where the feed is published. It reads the whole table once, in the
order of the keys, and requests only those parts of the digest that differ. A consumer may
run meanwhile. The consumer must have reached the position of the digest; what the feed has
after that, up to the position of the consumer, is taken into account.

It prints a line for each key that differs, as "rclone check --combined" does:
  * KEY  the contents differ
  + KEY  the copy does not have it
  - KEY  only the copy has it
  ! KEY  it could not be repaired
  = KEY  it is equal (only with --all)

In SQLite and in tables of whole entities in PostgreSQL, key, content type and body are
compared; header fields are not. In a table with --columns, only the Content-ID is
compared, if a column has @content_id, and otherwise only that the key exists; the same
holds if the column body was altered to jsonb. In CouchDB and Kinto, the Content-ID in the
member "feedctl" of a document or record is compared; those without it are ignored. A copy
of a database in CouchDB with its revisions ("bridge couchdb --revs") is compared leaf by
leaf with the feed, which needs no digest. The output says how the copy was compared.

With --repair, rows that differ are written again as the feed has them, and rows that only
the copy has are deleted; if these are more than --max-deletes allows, nothing is changed
at all. No consumer can run meanwhile. A row that someone else changes between the
comparison and the repair is left alone. The position does not move, and Ctrl-C or a crash
does no harm: run the command again. At the end, the repaired part is compared again.` + exit.Help(exit.NotFound, exit.Gap, exit.Invalid, exit.Differs, exit.Interrupted),
		Example: `  feedctl reconcile https://data.example.org/feeds/zones --into 'sqlite:zones.db?table=zones'
  feedctl reconcile https://data.example.org/feeds/zones --into 'sqlite:zones.db?table=zones' --repair
  feedctl reconcile s3://bucket/prefix#zones --into 'postgres://shop@db.example.org/shop?table=public.zones' --prefix Europe/
  feedctl reconcile zones --into 'sqlite:zones.db?table=zones' --repair --max-deletes 20 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !t.Repair && c.Flags().Changed("max-deletes") {
				return exit.Usagef("--max-deletes requires --repair: without it nothing is deleted")
			}
			t.Feed = args[0]
			if !a.JSON {
				t.Found = func(l reconcile.Line) error {
					_, err := fmt.Fprintf(a.Out, "%c %s\n", l.Kind, human.Printable(l.Key))
					return err
				}
			}
			a.Progress("reconcile", t.Status)
			result, err := t.Run(c.Context(), &a.Env)
			if result == nil {
				return err
			}
			return cmp.Or(a.Print(result, func(w io.Writer) error { return writeReconciled(w, result) }), err)
		},
	}
	t.Flags(c.Flags())
	app.Must(c.MarkFlagRequired("into"))
	return c
}

func writeReconciled(w io.Writer, r *task.Reconciled) error {
	for _, remark := range r.Remarks {
		fmt.Fprintln(w, "note:", remark)
	}
	found := "equal"
	if n := r.Differences(); n > 0 {
		found = fmt.Sprintf("%s: %s changed, %s missing, %s extra", human.Plural(n, "difference", "differences"),
			human.Count(r.Changed), human.Count(r.Missing), human.Count(r.Extra))
	}
	fmt.Fprintf(w, "%s: %s compared: %s\n", r.Into, human.Plural(r.Rows, "row", "rows"), found)
	if d := r.Repair; d != nil {
		fmt.Fprintf(w, "repaired: %s written, %s deleted; now %s\n", human.Count(d.Written), human.Count(d.Deleted),
			human.Plural(r.Remaining(), "difference", "differences"))
	}
	return nil
}
