package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/suggest"
)

// A Change is what applying documents does to one job.
type Change struct {
	Job    string `json:"job"`
	Action Action `json:"action"`
	// Before and After are the documents; nil if there is none.
	Before *Document `json:"before,omitempty"`
	After  *Document `json:"after,omitempty"`
}

// An Action is what is done to a job.
type Action string

// The actions.
const (
	Created   Action = "created"
	Changed   Action = "changed"
	Unchanged Action = "unchanged"
	Deleted   Action = "deleted"
)

// ApplyOptions are for [Scheduler.Apply].
type ApplyOptions struct {
	// Prune deletes the jobs of the documents' namespaces that are not among them.
	Prune bool
	// DryRun changes nothing.
	DryRun bool
	// Node is the name of a node that will join; jobs may be pinned to it already.
	Node string
	// If, unless it is nil, is asked for each document whether the job of this generation may
	// be changed; the generation is 0 if there is none. If not, nothing is changed, and the
	// error matches [ErrConflict].
	If func(id string, generation int64) bool
}

// Apply makes the jobs what the documents say. All of it is done, or nothing: if documents
// are invalid, or do the same as other jobs, Apply returns [InvalidError]. The changes are in the
// order of the documents; those of jobs that are deleted come last.
func (s *Scheduler) Apply(ctx context.Context, documents []Document, o ApplyOptions) (changes []Change, err error) {
	invalid := s.kinds.check(documents, false)
	err = s.db.Begin(ctx, func(tx jobdb.Tx) error {
		a, err := s.newApplication(ctx, tx)
		if err != nil {
			return err
		}
		if err := a.conflict(documents, o.If); err != nil {
			return err
		}
		changes = a.changes(documents, o.Prune)
		if invalid = append(invalid, a.order(documents)...); len(invalid) > 0 {
			return InvalidError(invalid)
		}
		problems, err := a.unknownNodes(ctx, tx, documents, o.Node)
		if err != nil {
			return err
		}
		if problems = append(problems, a.duplicates(documents)...); len(problems) > 0 {
			return InvalidError(problems)
		}
		if o.DryRun {
			return nil
		}
		return a.apply(ctx, tx, changes)
	})
	if err != nil {
		return nil, fmt.Errorf("apply jobs: %w", err)
	}
	s.poke()
	return changes, nil
}

// An application is the state that documents are compared with.
type application struct {
	store  *Scheduler
	now    time.Time
	ranks  map[string]int64
	stored map[string]*Job

	transient bool // what it creates
}

// newApplication reads all jobs, and keeps others from changing them until the transaction
// ends.
func (s *Scheduler) newApplication(ctx context.Context, tx jobdb.Tx) (*application, error) {
	a := &application{store: s, stored: map[string]*Job{}}
	all, err := load(ctx, tx, "ORDER BY id @lock")
	if err != nil {
		return nil, err
	}
	for _, j := range all {
		a.stored[j.Document.ID()] = j
	}
	a.now, err = now(ctx, tx)
	return a, err
}

// order decides which jobs run first. It returns a problem for each document that is to run
// after itself, or after a job that there is not.
func (a *application) order(documents []Document) (problems []Problem) {
	together := slices.Clone(documents)
	applied := map[string]bool{}
	for n := range documents {
		applied[documents[n].ID()] = true
	}
	for id, j := range a.stored {
		if !applied[id] {
			together = append(together, j.Document)
			applied[id] = true
		}
	}
	for n := range documents {
		problems = append(problems, documents[n].unknownAfter(applied, "a job")...)
	}
	if problems = append(problems, cycles(together)...); len(problems) == 0 {
		a.ranks = ranks(together)
	}
	return problems
}

// duplicates returns a problem for each document that does the same as a job that is neither
// changed nor deleted.
func (a *application) duplicates(documents []Document) (problems []Problem) {
	applied := map[string]bool{}
	for n := range documents {
		applied[documents[n].ID()] = true
	}
	u := users{}
	for id, j := range a.stored {
		if kind, ok := a.store.kinds[j.Document.Kind]; ok && !applied[id] && !j.Finished() {
			u.add(&j.Document, kind.Identify(&j.Document))
		}
	}
	for n := range documents {
		d := &documents[n]
		problems = append(problems, u.add(d, a.store.kinds[d.Kind].Identify(d))...)
	}
	return problems
}

// unknownNodes returns a problem for each document that is pinned to a node that never joined,
// unless it will.
func (a *application) unknownNodes(ctx context.Context, tx jobdb.Tx, documents []Document, joins string) (problems []Problem, err error) {
	known := map[string]bool{"": true, joins: true}
	err = jobdb.Each(ctx, tx, "SELECT DISTINCT name FROM @node", nil, func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		known[name] = true
		return err
	})
	for _, j := range a.stored {
		known[j.Document.Placement.Node] = true // it may be down
	}
	names := slices.Sorted(maps.Keys(known))
	for n := range documents {
		d := &documents[n]
		if known[d.Placement.Node] {
			continue
		}
		problems = append(problems, Problem{Job: d.ID(), Field: "placement.node", Message: fmt.Sprintf(
			"there is no node %q%s: start it first, with \"feedctl jobs worker --name %s\"", d.Placement.Node, suggest.DidYouMean(d.Placement.Node, names, ""), d.Placement.Node)})
	}
	return problems, err
}

// conflict returns an error if a job must not be changed.
func (a *application) conflict(documents []Document, may func(id string, generation int64) bool) error {
	for n := range documents {
		id, generation := documents[n].ID(), int64(0)
		if j, ok := a.stored[id]; ok {
			generation = j.Generation
		}
		if may != nil && !may(id, generation) {
			return fmt.Errorf("job %s: %w: it has generation %d", id, ErrConflict, generation)
		}
	}
	return nil
}

// changes compares the documents with what is stored.
func (a *application) changes(documents []Document, prune bool) (changes []Change) {
	applied, namespaces := map[string]bool{}, map[string]bool{}
	for n := range documents {
		d := &documents[n]
		applied[d.ID()], namespaces[d.Namespace] = true, true
		c := Change{Job: d.ID(), Action: Created, After: d}
		if j, ok := a.stored[d.ID()]; ok {
			before := j.Document // it will change
			c.Before, c.Action = &before, Changed
			if j.text == d.canonical() {
				c.Action = Unchanged
			}
		}
		changes = append(changes, c)
	}
	if prune {
		for id, j := range a.stored {
			if !applied[id] && namespaces[j.Document.Namespace] && !j.Transient {
				changes = append(changes, Change{Job: id, Action: Deleted, Before: &j.Document})
				delete(a.stored, id)
			}
		}
	}
	return changes
}

// apply makes the changes. What jobs identify themselves by is freed first, as one may take
// what another had.
func (a *application) apply(ctx context.Context, tx jobdb.Tx, changes []Change) error {
	steps := []map[Action]func(context.Context, jobdb.Tx, *Change) error{
		{Changed: a.free, Deleted: a.delete},
		{Created: a.create, Changed: a.change},
	}
	for _, step := range steps {
		for n := range changes {
			do, ok := step[changes[n].Action]
			if !ok {
				continue
			}
			if err := do(ctx, tx, &changes[n]); err != nil {
				return fmt.Errorf("job %s: %w", changes[n].Job, err)
			}
		}
	}
	return nil
}

func (a *application) free(ctx context.Context, tx jobdb.Tx, c *Change) error {
	_, err := tx.Exec(ctx, "UPDATE @job SET work = id, target = '' WHERE id = $1", c.Job)
	return err
}

func (a *application) delete(ctx context.Context, tx jobdb.Tx, c *Change) error {
	return remove(ctx, tx, c.Job)
}

func (a *application) change(ctx context.Context, tx jobdb.Tx, c *Change) error {
	j, d := a.stored[c.Job], *c.After
	var applied Document // what was applied last; it may have been paused or resumed since
	if err := json.Unmarshal([]byte(j.text), &applied); err != nil {
		return err
	}
	text := d.canonical()
	if d.Paused == applied.Paused {
		d.Paused = j.Document.Paused
	}
	j.change(d)
	j.text = text
	if err := j.schedule(a.now); err != nil {
		return err
	}
	if err := a.identify(ctx, tx, &d); err != nil {
		return err
	}
	return a.store.save(ctx, tx, j, EventChanged, "", a.now)
}

func (a *application) create(ctx context.Context, tx jobdb.Tx, c *Change) error {
	d := c.After
	j := &Job{Document: *d, Generation: 1, Transient: a.transient, State: Pending, Wanted: 1, Epoch: micros(a.now), text: d.canonical()}
	if d.Paused {
		j.State = Paused
	}
	if err := j.schedule(a.now); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `INSERT INTO @job (id, namespace, kind, labels, document, generation, work, target, source_origin, target_origin, follow, transient, rank, node, placement, state, paused,
			watch_type, watch_server, watch_credential, watch_node, watch_name)
		VALUES ($1, $2, '', '', $3, $4, $5, '', '', '', $6, $7, $8, $9, '%', $10, $11, '', '', '', '', '')`,
		d.ID(), d.Namespace, j.text, j.Generation, d.ID(), d.Follow, j.Transient, a.ranks[d.ID()], d.Placement.Node, j.State, j.Document.Paused)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO @tenant (namespace, charged) VALUES ($1, @now) ON CONFLICT DO NOTHING", d.Namespace); err != nil {
		return err
	}
	if err := a.identify(ctx, tx, d); err != nil {
		return err
	}
	return a.store.save(ctx, tx, j, EventAdded, "", a.now)
}

// identify writes what follows from a document.
func (a *application) identify(ctx context.Context, tx jobdb.Tx, d *Document) error {
	i := a.store.kinds[d.Kind].Identify(d)
	watchNode := ""
	if i.Watch.Local {
		watchNode = d.Placement.Node
	}
	_, err := tx.Exec(ctx, `UPDATE @job SET work = $2, target = $3, source_origin = $4, target_origin = $5, follow = $6, rank = $7, node = $8, kind = $14, labels = $15, placement = $16,
			watch_type = $9, watch_server = $10, watch_credential = $11, watch_node = $12, watch_name = $13, watch_state = '' WHERE id = $1`,
		d.ID(), i.Work, i.Target, i.SourceOrigin, i.TargetOrigin, d.Follow, a.ranks[d.ID()], d.Placement.Node,
		i.Watch.Type, i.Watch.Server, i.Watch.Credential, watchNode, i.Watch.Name,
		d.Kind, labelLines(d.Labels), d.Placement.pattern())
	return err
}

func remove(ctx context.Context, tx jobdb.Tx, id string) error {
	for _, of := range []string{"@event", "@stats", "@log"} {
		if _, err := tx.Exec(ctx, "DELETE FROM "+of+" WHERE job = $1", id); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, "DELETE FROM @job WHERE id = $1", id)
	return err
}
