// Package couchdiff compares two databases completely, for tests: all documents, all leaf revisions
// (including deleted ones) with their ancestors, and the bytes of all attachments. It has its own HTTP
// client, because an oracle must not share the bugs of the code that it checks.
//
// It does not compare what CouchDB's replicator does not copy: documents in _local, the security object,
// and the order of changes. If the second database belongs to PouchDB's engine, it does not compare
// revpos either, since that engine assigns its own.
package couchdiff

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// maxDifferences is the maximum number of differences that [Compare] returns.
const maxDifferences = 50

// Compare returns the differences between the databases at two URLs, one line for
// each. The URLs may have credentials. The databases must not be written to in the
// meantime.
func Compare(ctx context.Context, a, b string) ([]string, error) {
	client := &http.Client{Timeout: answerTime}
	c := comparison{a: database{a, client}, b: database{b, client}}
	if err := c.compare(ctx); err != nil {
		return nil, fmt.Errorf("compare databases: %w", err)
	}
	return c.differences, nil
}

type comparison struct {
	a, b        database
	revpos      bool // whether revpos is compared
	differences []string
}

func (c *comparison) found(format string, args ...any) {
	c.differences = append(c.differences, fmt.Sprintf(format, args...))
}

func (c *comparison) full() bool { return len(c.differences) >= maxDifferences }

func (c *comparison) compare(ctx context.Context) error {
	rewritten, err := c.b.rewritesRevpos(ctx)
	if err != nil {
		return err
	}
	c.revpos = !rewritten
	inA, err := c.a.ids(ctx)
	if err != nil {
		return err
	}
	inB, err := c.b.ids(ctx)
	if err != nil {
		return err
	}
	all := maps.Clone(inA)
	maps.Copy(all, inB)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if c.full() {
			break
		}
		switch {
		case !inA[id]:
			c.found("document %q is only in the second database", id)
		case !inB[id]:
			c.found("document %q is only in the first database", id)
		default:
			if err := c.document(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *comparison) document(ctx context.Context, id string) error {
	inA, err := c.a.leaves(ctx, id)
	if err != nil {
		return err
	}
	inB, err := c.b.leaves(ctx, id)
	if err != nil {
		return err
	}
	all := maps.Clone(inA)
	maps.Copy(all, inB)
	for _, rev := range slices.Sorted(maps.Keys(all)) {
		a, b := inA[rev], inB[rev]
		if a == nil || b == nil {
			where := "first"
			if a == nil {
				where = "second"
			}
			c.found("leaf %s of document %q is only in the %s database", rev, id, where)
			continue
		}
		if err := c.leaf(ctx, id, rev, a, b); err != nil {
			return err
		}
	}
	return nil
}

// leaf compares two revisions with the same name.
func (c *comparison) leaf(ctx context.Context, id, rev string, a, b leaf) error {
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if x, y := text(a[name]), text(b[name]); name != attachmentsMember && x != y {
			c.found("leaf %s of document %q: member %s is %.200s in the first database and %.200s in the second", rev, id, name, x, y)
		}
	}
	return c.attachments(ctx, id, rev, a.attachments(), b.attachments())
}

// attachments compares the attachments of a revision: their names, metadata and bytes.
func (c *comparison) attachments(ctx context.Context, id, rev string, a, b map[string]attachment) error {
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, inA := a[name]
		y, inB := b[name]
		if !inA || !inB {
			where := "first"
			if !inA {
				where = "second"
			}
			c.found("attachment %q of leaf %s of document %q is only in the %s database", name, rev, id, where)
			continue
		}
		if !c.revpos {
			x.revpos, y.revpos = "", ""
		}
		if x != y {
			c.found("attachment %q of leaf %s of document %q is %+v in the first database and %+v in the second", name, rev, id, x, y)
		}
		first, err := c.a.digest(ctx, id, rev, name)
		if err != nil {
			return err
		}
		second, err := c.b.digest(ctx, id, rev, name)
		if err != nil {
			return err
		}
		if first != second {
			c.found("attachment %q of leaf %s of document %q has other bytes: %s in the first database, %s in the second", name, rev, id, first, second)
		}
	}
	return nil
}

// text returns the canonical JSON of a value: members are sorted, and numbers have the digits that the
// server sent.
func text(value any) string {
	if value == nil {
		return "missing or null"
	}
	b, err := json.Marshal(value)
	return cmp.Or(string(b), fmt.Sprint(err))
}
