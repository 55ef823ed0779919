package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// A Filter selects jobs. Fields that are not set do not restrict the selection.
type Filter struct {
	Namespace string
	// States are the states as shown: a job that waits after an error is crashing and not pending.
	States []State
	Kind   string
	// Origin is a server that the jobs use: HOST, HOST:PORT, or https://HOST:PORT.
	Origin string
	// Labels selects jobs that have all of these labels.
	Labels map[string]string
	Name   string // a part of the name
	// Persistent leaves out the jobs of [Scheduler.RunOnce].
	Persistent bool

	// After is the field Next of the previous page. The zero value selects the first page.
	After string
	// Limit is the maximum number of jobs on a page (default 100, up to 1000).
	Limit int
	// Skip is how many jobs are skipped before the page. Each skipped job takes time: use After to read many pages.
	Skip int
}

// The limits of a page of a list.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// MaxLabels is how many labels a [Filter] may have.
const MaxLabels = 20

// A Page is a part of a list of jobs, ordered by namespace and name. If jobs are created or deleted
// between pages, all other jobs nevertheless appear exactly once.
type Page struct {
	Jobs []Listed `json:"jobs"`
	// Next is the value for [Filter.After] to read the next page; it is empty on the last page.
	Next string `json:"next,omitempty"`
}

// A Listed is a job in a list, with details from other tables.
type Listed struct {
	Job
	// State is the state as shown.
	State State `json:"state"`
	// Node is the name of the node that runs the job.
	Node string `json:"node,omitempty"`
	// Stats is nil before the first report. Its Pending and Lag are current, as in [Count].
	Stats *Stats `json:"stats,omitempty"`
	// Updated is when the statistics were last written.
	Updated time.Time `json:"updated,omitzero"`
	// Now is the time of the database at the query. Subtract the other times from it to get ages.
	Now time.Time `json:"-"`
}

// List returns a page of the jobs that a filter selects.
func (s *Scheduler) List(ctx context.Context, f Filter) (page Page, err error) {
	limit := min(f.Limit, MaxLimit)
	if limit <= 0 {
		limit = DefaultLimit
	}
	c, err := f.conditions(ctx)
	if err != nil {
		return Page{}, fmt.Errorf("list jobs: %w", err)
	}
	if namespace, _, ok := strings.Cut(f.After, "/"); ok {
		if f.Namespace != "" {
			c.add("j.id > ?", f.After)
		} else {
			c.add("(j.namespace, j.id) > (?, ?)", namespace, f.After)
		}
	} else if f.After != "" {
		return Page{}, fmt.Errorf("list jobs: invalid cursor %q: want that of the previous page", f.After)
	}
	err = s.db.View(ctx, func(tx jobdb.Tx) (err error) {
		page.Jobs, err = list(ctx, tx, c, limit+1, max(0, f.Skip))
		return err
	})
	if err != nil {
		return Page{}, fmt.Errorf("list jobs: %w", err)
	}
	if len(page.Jobs) > limit {
		page.Jobs = page.Jobs[:limit]
		page.Next = page.Jobs[limit-1].Document.ID()
	}
	return page, nil
}

// listed is a query for the columns of [Listed].
var listed = "SELECT j." + strings.ReplaceAll(columns, ", ", ", j.") + ", n.name, s.updated, s.entities, s.bytes, s.repeated, s.rejected, " +
	pendingOf + ", " + lagOf + `, s.position, s.source_position, @now
	FROM @job AS j LEFT JOIN @node AS n ON n.incarnation = j.owner LEFT JOIN @stats AS s ON s.job = j.id`

func list(ctx context.Context, tx jobdb.Tx, c conditions, limit, skip int) (found []Listed, err error) {
	sql := listed + c.where() + " ORDER BY j.namespace, j.id LIMIT " + strconv.Itoa(limit)
	if skip > 0 {
		sql += " OFFSET $" + strconv.Itoa(len(c.args)+1)
		c.args = append(slices.Clip(c.args), skip)
	}
	err = jobdb.Each(ctx, tx, sql, c.args, func(scan func(...any) error) error {
		var l Listed
		err := l.scan(scan)
		found = append(found, l)
		return err
	})
	return found, err
}

// conditions holds the conditions of a query for jobs. The table of jobs has the alias j.
type conditions struct {
	all  []string
	args []any
}

// add adds a condition in which each ? stands for an argument.
func (c *conditions) add(sql string, args ...any) {
	for _, arg := range args {
		c.args = append(c.args, arg)
		sql = strings.Replace(sql, "?", "$"+strconv.Itoa(len(c.args)), 1)
	}
	c.all = append(c.all, sql)
}

func (c *conditions) where() string {
	if len(c.all) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(c.all, " AND ")
}

// contains returns the condition that the given string contains another one. It does not use LIKE, which depends on
// the database.
func contains(text string) string { return "replace(" + text + ", ?, '') <> " + text }

func (f *Filter) conditions(ctx context.Context) (c conditions, err error) {
	c.visible(ctx)
	if f.Namespace != "" {
		c.add("j.namespace = ?", f.Namespace)
	}
	if f.Kind != "" {
		c.add("j.kind = ?", f.Kind)
	}
	if f.Persistent {
		c.add("NOT j.transient")
	}
	if f.Name != "" {
		c.add(contains("substr(j.id, length(j.namespace) + 2)"), f.Name)
	}
	if len(f.Labels) > MaxLabels {
		return c, fmt.Errorf("more than %d labels", MaxLabels)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Labels)) {
		c.add(contains("j.labels"), labelLines(map[string]string{name: f.Labels[name]}))
	}
	if f.Origin != "" {
		origin(&c, f.Origin)
	}
	var states []string
	for _, state := range f.States {
		sql, ok := shownAs[state]
		if !ok {
			return c, fmt.Errorf("unknown state %q: want one of %s", state, joinStates(States()))
		}
		states = append(states, sql)
	}
	if len(states) > 0 {
		slices.Sort(states) // so that the database sees few different statements
		c.add("(" + strings.Join(slices.Compact(states), " OR ") + ")")
	}
	return c, nil
}

// origin adds the condition that a job uses a server.
func origin(c *conditions, server string) {
	if strings.Contains(server, "://") {
		c.add("(j.source_origin = ? OR j.target_origin = ?)", server, server)
		return
	}
	var either []string
	var args []any
	for _, column := range []string{"j.source_origin", "j.target_origin"} {
		for _, end := range []string{":", "/"} {
			either = append(either, contains("("+column+" || '/')"))
			args = append(args, "://"+server+end)
		}
	}
	c.add("("+strings.Join(either, " OR ")+")", args...)
}

// shownAs holds the conditions for states as shown.
var shownAs = map[State]string{
	Pending:   "j.state = 'pending' AND j.errors = 0",
	Crashing:  "j.state = 'pending' AND j.errors > 0",
	Running:   "j.state = 'running'",
	Idle:      "j.state = 'idle'",
	Paused:    "j.state = 'paused'",
	Completed: "j.state = 'completed'",
	Failed:    "j.state = 'failed'",
}

// States returns all states as shown, in the order of lists.
func States() []State {
	return []State{Pending, Running, Idle, Crashing, Paused, Completed, Failed}
}

func joinStates(states []State) string {
	names := make([]string, len(states))
	for n, state := range states {
		names[n] = string(state)
	}
	return strings.Join(names, ", ")
}

// labelLines returns labels in the form in which they are stored.
func labelLines(labels map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString("\n" + name + "=" + labels[name] + "\n")
	}
	return b.String()
}

// Totals returns, for each state as shown, how many jobs the filter selects. After and Limit have
// no effect.
func (s *Scheduler) Totals(ctx context.Context, f Filter) (map[State]int, error) {
	c, err := f.conditions(ctx)
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	totals := map[State]int{}
	err = s.db.View(ctx, func(tx jobdb.Tx) error {
		const crashing = "(j.state = 'pending' AND j.errors > 0)"
		sql := "SELECT j.state, " + crashing + ", count(*) FROM @job AS j" + c.where() + " GROUP BY j.state, " + crashing
		return jobdb.Each(ctx, tx, sql, c.args, func(scan func(...any) error) error {
			var state State
			var crashing bool
			var count int
			err := scan(&state, &crashing, &count)
			if crashing {
				state = Crashing
			}
			totals[state] = count
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	return totals, nil
}

func (l *Listed) scan(scan func(...any) error) error {
	var node, position, source *string
	var updated, entities, bytes, repeated, rejected, pending, lag *int64
	var now int64
	err := l.Job.scan(func(into ...any) error {
		return scan(append(into, &node, &updated, &entities, &bytes, &repeated, &rejected, &pending, &lag, &position, &source, &now)...)
	})
	if err != nil {
		return err
	}
	l.State, l.Now = l.Shown(), fromMicros(now)
	if node != nil {
		l.Node = *node
	}
	if updated != nil {
		l.Updated = fromMicros(*updated)
		l.Stats = &Stats{*entities, *bytes, *repeated, *rejected, -1, -1, *position, *source}
		if pending != nil {
			l.Stats.Pending = *pending
		}
		if lag != nil {
			l.Stats.Lag = age(*lag)
		}
	}
	return nil
}
