package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// A Change is the effect of applying documents on one job.
type Change struct {
	Job    string `json:"job"`
	Action Action `json:"action"`
	// Before and After are the documents of the job; nil if there is none. They are the same if the
	// job is unchanged.
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

// ApplyOptions holds the options of [Scheduler.Apply].
type ApplyOptions struct {
	// Prune deletes all jobs for which there is no document, in the namespaces of the documents and
	// in Namespaces. Transient jobs stay.
	Prune      bool
	Namespaces []string
	// PruneAll deletes all jobs for which there is no document, in every namespace. Transient jobs
	// stay.
	PruneAll bool
	// DryRun changes nothing.
	DryRun bool
	// Node is the name of a node that will join; jobs may already be pinned to it.
	Node string
	// If is a function that, unless nil, is called for each document with the version of its job, or "" if there is
	// no job; see [Job.Version]. If it returns false for one of them, nothing is changed, and the error matches
	// [ErrConflict].
	If func(id, version string) bool
}

// Apply creates, changes and deletes jobs so that they match documents. It applies all documents or
// none: if a document is invalid, or its job would do the same as another job, Apply returns an [InvalidError].
// The changes are in the order of the documents, followed by those of deleted jobs. Unchanged jobs
// cost no write.
func (s *Scheduler) Apply(ctx context.Context, documents []Document, o ApplyOptions) (changes []Change, err error) {
	identities, problems := s.kinds.inspect(documents)
	begin := s.db.Begin
	if o.DryRun {
		begin = s.db.View
	}
	err = begin(ctx, func(tx jobdb.Tx) error {
		a, err := s.newApplication(ctx, tx, documents, identities)
		if err != nil {
			return err
		}
		if changes, err = a.changes(ctx, tx, o); err != nil {
			return err
		}
		if err := a.conflict(o.If); err != nil {
			return err
		}
		found, err := a.check(ctx, tx, changes, o.Node)
		if err != nil {
			return err
		}
		if all := slices.Concat(problems, found); len(all) > 0 {
			return InvalidError(all)
		}
		if o.DryRun {
			return nil
		}
		return a.write(ctx, tx, changes)
	})
	if err != nil {
		return nil, fmt.Errorf("apply jobs: %w", err)
	}
	s.poke()
	return changes, nil
}

// An application is one attempt to apply documents. It compares them with what is stored.
type application struct {
	store      *Scheduler
	now        time.Time
	documents  []Document
	identities []*Identity    // of the documents; nil for one that is invalid
	index      map[string]int // of the documents, by ID
	stored     map[string]version
	jobs       map[string]*Job // the jobs to be changed or deleted, which are locked
	ranks      map[string]int64
	transient  bool // the jobs that are created are transient
	retry      bool // transient jobs are retried
}

// A version is the stored state of a job, with which a document is compared.
type version struct {
	text    string
	version string
}

// atOnce is how many jobs one statement reads, and writeAtOnce how many it writes: SQLite
// allows 32,766 parameters.
const (
	atOnce      = 500
	writeAtOnce = 200
)

// newApplication reads what is stored about the documents' jobs, and keeps others from applying
// documents until the transaction ends. It must come first in the transaction, since locks are
// taken in this order: @mutex, the jobs by ID, and what belongs to the jobs.
func (s *Scheduler) newApplication(ctx context.Context, tx jobdb.Tx, documents []Document, identities []*Identity) (*application, error) {
	if err := exclusively(ctx, tx); err != nil {
		return nil, err
	}
	a := &application{store: s, documents: documents, identities: identities, index: map[string]int{}, stored: map[string]version{}, jobs: map[string]*Job{}}
	var valid []string
	for n := range documents {
		a.index[documents[n].ID()] = n
		if d := &documents[n]; validName.MatchString(d.Namespace) && validName.MatchString(d.Name) {
			valid = append(valid, d.ID())
		}
	}
	var err error
	if a.now, err = now(ctx, tx); err != nil {
		return nil, err
	}
	return a, eachOf(ctx, tx, "SELECT id, document, generation, created, paused FROM @job WHERE id IN (@list)", valid, func(scan func(...any) error) error {
		var id, text string
		var generation, created int64
		var paused bool
		err := scan(&id, &text, &generation, &created, &paused)
		a.stored[id] = version{text, versionOf(generation, created, paused)}
		return err
	})
}

// conflict returns an error if a job must not be changed.
func (a *application) conflict(may func(id, version string) bool) error {
	for n := range a.documents {
		id := a.documents[n].ID()
		v := a.stored[id].version
		if j, ok := a.jobs[id]; ok {
			v = j.Version() // the job may have been paused before it was locked
		}
		if may != nil && !may(id, v) {
			why := "it has version " + v
			if v == "" {
				why = "it does not exist"
			}
			return fmt.Errorf("job %s: %w: %s", id, ErrConflict, why)
		}
	}
	return nil
}

// changes compares the documents with what is stored, and locks the jobs that are to be changed or
// deleted. A job that was to be changed but has been deleted meanwhile is created again.
func (a *application) changes(ctx context.Context, tx jobdb.Tx, o ApplyOptions) (changes []Change, err error) {
	var lock []string
	for n := range a.documents {
		d := &a.documents[n]
		c := Change{Job: d.ID(), Action: Created, After: d}
		if v, ok := a.stored[d.ID()]; ok && v.text == d.canonical() {
			c.Action, c.Before = Unchanged, d
		} else if ok {
			c.Action = Changed
			lock = append(lock, c.Job)
		}
		changes = append(changes, c)
	}
	superfluous, err := a.superfluous(ctx, tx, o)
	if err != nil {
		return nil, err
	}
	for _, id := range superfluous {
		changes = append(changes, Change{Job: id, Action: Deleted})
		lock = append(lock, id)
	}
	slices.Sort(lock)
	for some := range slices.Chunk(lock, atOnce) {
		found, err := load(ctx, tx, "WHERE id IN ("+jobdb.List(1, len(some))+") ORDER BY id @lock", anys(some)...)
		if err != nil {
			return nil, err
		}
		for _, j := range found {
			a.jobs[j.Document.ID()] = j
		}
	}
	for n := range changes {
		c := &changes[n]
		switch j, ok := a.jobs[c.Job]; {
		case ok:
			before := j.Document // a copy, since the job will change
			c.Before = &before
		case c.Action == Changed:
			c.Action = Created
			delete(a.stored, c.Job) // the job was deleted before it could be locked
		}
	}
	return slices.DeleteFunc(changes, func(c Change) bool { return c.Action == Deleted && c.Before == nil }), nil
}

// superfluous returns the jobs that are to be deleted because they are not among the documents.
func (a *application) superfluous(ctx context.Context, tx jobdb.Tx, o ApplyOptions) (ids []string, err error) {
	add := func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		if _, applied := a.index[id]; !applied {
			ids = append(ids, id)
		}
		return err
	}
	const sql = "SELECT id FROM @job WHERE NOT transient"
	switch {
	case o.PruneAll:
		err = jobdb.Each(ctx, tx, sql, nil, add)
		return ids, err
	case !o.Prune:
		return nil, nil
	}
	namespaces := map[string]bool{}
	for _, name := range o.Namespaces {
		namespaces[name] = validName.MatchString(name)
	}
	for n := range a.documents {
		name := a.documents[n].Namespace
		namespaces[name] = validName.MatchString(name)
	}
	maps.DeleteFunc(namespaces, func(_ string, valid bool) bool { return !valid })
	err = eachOf(ctx, tx, sql+" AND namespace IN (@list)", slices.Sorted(maps.Keys(namespaces)), add)
	return ids, err
}

// eachOf calls row for each row of a query for any number of values, which stand for @list.
func eachOf(ctx context.Context, tx jobdb.Tx, sql string, values []string, row func(scan func(...any) error) error) error {
	for some := range slices.Chunk(values, atOnce) {
		if err := jobdb.Each(ctx, tx, withList(sql, len(some)), anys(some), row); err != nil {
			return err
		}
	}
	return nil
}

// execOf executes a statement for any number of values, which stand for @list.
func execOf(ctx context.Context, tx jobdb.Tx, sql string, values []string) error {
	for some := range slices.Chunk(values, atOnce) {
		if _, err := tx.Exec(ctx, withList(sql, len(some)), anys(some)...); err != nil {
			return err
		}
	}
	return nil
}

func withList(sql string, values int) string {
	return strings.Replace(sql, "@list", jobdb.List(1, values), 1)
}

func anys(texts []string) []any {
	all := make([]any, len(texts))
	for n, text := range texts {
		all[n] = text
	}
	return all
}
