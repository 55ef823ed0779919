package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/suggest"
)

// check returns all problems that are only found by comparing the changes with what is stored.
func (a *application) check(ctx context.Context, tx jobdb.Tx, changes []Change, joins string) (problems []Problem, err error) {
	var writes, valid []int // indexes of documents
	deleted := map[string]bool{}
	for n := range changes {
		switch c := &changes[n]; c.Action {
		case Created, Changed:
			writes = append(writes, n)
			if a.identities[n] != nil { // otherwise its node or its source may not even be valid text
				valid = append(valid, n)
			}
		case Deleted:
			deleted[c.Job] = true
		}
	}
	unknown, err := a.unknownNodes(ctx, tx, valid, joins)
	if err != nil {
		return nil, err
	}
	order, err := a.order(ctx, tx, writes, deleted)
	if err != nil {
		return nil, err
	}
	same, err := a.duplicates(ctx, tx, valid, deleted)
	return slices.Concat(unknown, order, same), err
}

// unknownNodes returns a problem for each document that is pinned to a node that has never joined.
// A node is not unknown if it is about to join, or if other jobs are pinned to it, since it may be
// down.
func (a *application) unknownNodes(ctx context.Context, tx jobdb.Tx, writes []int, joins string) (problems []Problem, err error) {
	pinned := map[string]bool{}
	for _, n := range writes {
		pinned[a.documents[n].Placement.Node] = true
	}
	delete(pinned, "")
	delete(pinned, joins)
	if len(pinned) == 0 {
		return nil, nil
	}
	known := map[string]bool{"": true, joins: true}
	add := func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		known[name] = true
		return err
	}
	if err := jobdb.Each(ctx, tx, "SELECT DISTINCT name FROM @node", nil, add); err != nil {
		return nil, err
	}
	if err := eachOf(ctx, tx, "SELECT DISTINCT node FROM @job WHERE node IN (@list)", slices.Sorted(maps.Keys(pinned)), add); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(known))
	for _, n := range writes {
		d := &a.documents[n]
		if known[d.Placement.Node] {
			continue
		}
		problems = append(problems, d.problem(n, "placement.node",
			"there is no node %q%s: start it first, with \"feedctl jobs worker --name %s\"", d.Placement.Node, suggest.DidYouMean(d.Placement.Node, names, ""), d.Placement.Node))
	}
	return problems, nil
}

// order sets the ranks of the documents. It returns a problem for each document that is to run
// after itself, or after a job that does not exist.
func (a *application) order(ctx context.Context, tx jobdb.Tx, writes []int, deleted map[string]bool) (problems []Problem, err error) {
	together := slices.Clip(a.documents)
	known, asked := map[string]bool{}, map[string]bool{}
	var missing []string
	need := func(d *Document) {
		for _, name := range d.After {
			if id := d.Namespace + "/" + name; !asked[id] && validName.MatchString(name) && validName.MatchString(d.Namespace) {
				asked[id] = true
				missing = append(missing, id)
			}
		}
	}
	for id := range a.index {
		known[id], asked[id] = true, true
	}
	for _, n := range writes {
		need(&a.documents[n])
	}
	for len(missing) > 0 { // the jobs that the documents run after, the jobs that those run after, and so on
		some := missing
		missing = nil
		err := eachOf(ctx, tx, "SELECT document FROM @job WHERE id IN (@list)", some, func(scan func(...any) error) error {
			var text string
			if err := scan(&text); err != nil {
				return err
			}
			var d Document
			if err := json.Unmarshal([]byte(text), &d); err != nil {
				return err
			}
			known[d.ID()] = !deleted[d.ID()]
			together = append(together, d)
			need(&d)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, n := range writes {
		d := &a.documents[n]
		for _, name := range d.After {
			if !known[d.Namespace+"/"+name] {
				problems = append(problems, d.problem(n, "after", "%q is not a job", name))
			}
		}
	}
	applied := func(id string) bool { _, ok := a.index[id]; return ok }
	if problems = append(problems, cycles(together, applied)...); len(problems) == 0 {
		a.ranks = ranks(together)
	}
	return problems, nil
}

// duplicates returns a problem for each document that does the same as a job that is neither
// changed nor deleted, and has not ended. Transient jobs count only if the documents are transient,
// too: other jobs wait until a transient one has ended.
func (a *application) duplicates(ctx context.Context, tx jobdb.Tx, writes []int, deleted map[string]bool) (problems []Problem, err error) {
	does, writesTo := map[string]int{}, map[string]int{}
	for _, n := range writes {
		if work := a.identities[n].Work; work != "" {
			does[work] = n
		}
		if target := a.identities[n].Target; target != "" {
			writesTo[target] = n
		}
	}
	found := map[int]Problem{}
	for _, same := range []struct {
		column, field, message string
		users                  map[string]int
	}{
		{"work", "source", "%s does the same", does},
		{"target", "target", "%s writes to the same target", writesTo},
	} {
		sql := "SELECT id, " + same.column + " FROM @job WHERE state NOT IN ('completed', 'failed') AND " + same.column + " IN (@list)"
		if !a.transient {
			sql += " AND NOT transient"
		}
		err := eachOf(ctx, tx, sql, slices.Sorted(maps.Keys(same.users)), func(scan func(...any) error) error {
			var id, value string
			if err := scan(&id, &value); err != nil {
				return err
			}
			n := same.users[value]
			if _, applied := a.index[id]; !applied && !deleted[id] && found[n].Message == "" {
				found[n] = a.documents[n].problem(n, same.field, same.message, nameTo(ctx, id, fmt.Sprintf("job %q", id)))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(found), func(x, y Problem) int {
		return cmp.Or(cmp.Compare(x.document, y.document), strings.Compare(x.Field, y.Field))
	}), nil
}

// write makes the changes. The names, work and targets of jobs are freed first, since a job may
// take over those of another.
func (a *application) write(ctx context.Context, tx jobdb.Tx, changes []Change) error {
	ids := map[Action][]string{}
	rows := &bulk{settings: a.store.settings(), now: a.now}
	for n := range changes {
		c := &changes[n]
		ids[c.Action] = append(ids[c.Action], c.Job)
		switch c.Action {
		case Created, Changed:
			j, event, err := a.result(c)
			if err != nil {
				return fmt.Errorf("job %s: %w", c.Job, err)
			}
			rows.add(j, event, a.identities[n], a.ranks[c.Job])
		}
	}
	if err := remove(ctx, tx, ids[Deleted]...); err != nil {
		return err
	}
	if err := execOf(ctx, tx, "UPDATE @job SET work = id, target = '' WHERE id IN (@list)", ids[Changed]); err != nil {
		return err
	}
	return rows.write(ctx, tx)
}

// result returns the job after a change.
func (a *application) result(c *Change) (*Job, EventType, error) {
	d := *c.After
	j, ok := a.jobs[c.Job]
	if !ok {
		j = &Job{Document: d, Generation: 1, Created: a.now, State: Pending, Wanted: 1, Epoch: micros(a.now), Transient: a.transient, Retry: a.retry, text: d.canonical()}
		if d.Paused {
			j.State = Paused
		}
		return j, EventAdded, j.schedule(a.now)
	}
	applied, err := j.applied()
	if err != nil {
		return nil, "", err
	}
	j.text = d.canonical()
	if d.Paused == applied.Paused { // the job may have been paused or resumed since it was applied
		d.Paused = j.Document.Paused
	}
	j.change(d)
	j.Transient, j.Retry = a.transient, a.retry
	return j, EventChanged, j.schedule(a.now)
}
