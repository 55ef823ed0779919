package jobs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// A bulk writes many jobs with few statements.
type bulk struct {
	settings   *Settings
	now        time.Time
	jobs       [][]any // rows
	events     [][]any
	namespaces map[string]bool
	trim       []string // jobs with more events than are kept
}

// bulkColumns lists the columns that a bulk writes: first those that follow from the document of a
// job, then all others.
const bulkColumns = "id, namespace, kind, labels, work, target, source_origin, target_origin, follow, rank, node, placement, " +
	"watch_type, watch_server, watch_credential, watch_node, watch_name, watch_state, created, transient, retry, metrics, " +
	"document, generation, state, paused, epoch, owner, observed, wanted, seen, not_before, errors, reason, started, stopped, succeeded, events, since, blamed, behind, orphaned, failed, failure, hint"

// add adds a job, and an event to its history.
func (b *bulk) add(j *Job, event EventType, i *Identity, rank int64) {
	d := &j.Document
	watchNode := ""
	if i.Watch.Local {
		watchNode = d.Placement.Node
	}
	j.events++
	j.enter(b.now)
	b.jobs = append(b.jobs, append([]any{
		d.ID(), d.Namespace, d.Kind, labelLines(d.Labels), i.Work, i.Target, i.SourceOrigin, i.TargetOrigin, d.Follow, rank, d.Placement.Node, d.Placement.pattern(),
		i.Watch.Type, i.Watch.Server, i.Watch.Credential, watchNode, i.Watch.Name, "", micros(j.Created), j.Transient, j.Retry, d.Metrics && d.Follow,
	}, j.values()...))
	b.events = append(b.events, []any{d.ID(), j.events, micros(b.now), event, "", j.Reason})
	if j.events > int64(b.settings.History) {
		b.trim = append(b.trim, d.ID())
	}
	if b.namespaces == nil {
		b.namespaces = map[string]bool{}
	}
	b.namespaces[d.Namespace] = true
}

// write writes everything that was added.
func (b *bulk) write(ctx context.Context, tx jobdb.Tx) error {
	for namespace := range b.namespaces {
		if _, err := tx.Exec(ctx, "INSERT INTO @tenant (namespace, charged) VALUES ($1, @now) ON CONFLICT DO NOTHING", namespace); err != nil {
			return err
		}
	}
	var updates []string
	for _, column := range strings.Split(bulkColumns, ", ")[1:] {
		updates = append(updates, column+" = excluded."+column)
	}
	if err := insert(ctx, tx, "@job", bulkColumns, b.jobs, " ON CONFLICT (id) DO UPDATE SET "+strings.Join(updates, ", ")); err != nil {
		return err
	}
	if err := insert(ctx, tx, "@event", "job, number, at, type, node, reason", b.events, ""); err != nil {
		return err
	}
	for some := range slices.Chunk(b.trim, atOnce) {
		sql := "DELETE FROM @event AS e WHERE job IN (" + jobdb.List(2, len(some)) + ") AND number <= (SELECT events FROM @job WHERE id = e.job) - $1"
		if _, err := tx.Exec(ctx, sql, append([]any{b.settings.History}, anys(some)...)...); err != nil {
			return err
		}
	}
	return nil
}

// insert inserts rows into a table.
func insert(ctx context.Context, tx jobdb.Tx, table, columns string, rows [][]any, conflict string) error {
	for some := range slices.Chunk(rows, writeAtOnce) {
		var sql strings.Builder
		sql.WriteString("INSERT INTO " + table + " (" + columns + ") VALUES ")
		var args []any
		for n, row := range some {
			if n > 0 {
				sql.WriteString(", ")
			}
			sql.WriteString("(" + jobdb.List(len(args)+1, len(row)) + ")")
			args = append(args, row...)
		}
		if _, err := tx.Exec(ctx, sql.String()+conflict, args...); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes jobs, and what belongs to them.
func remove(ctx context.Context, tx jobdb.Tx, ids ...string) error {
	for _, from := range []string{"@job WHERE id", "@event WHERE job", "@stats WHERE job", "@log WHERE job"} {
		if err := execOf(ctx, tx, "DELETE FROM "+from+" IN (@list)", ids); err != nil {
			return err
		}
	}
	return nil
}
