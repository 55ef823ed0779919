package couchtest

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A document is a tree of revisions.
type document struct {
	id    string
	revs  map[string]*revision // by their names, such as "2-c0ffee"
	shard int
	seq   int // sequence of the last update of the document in its shard
}

// A revision is a node of the tree.
type revision struct {
	generation  int
	hash        string
	parent      *revision // nil if no older revision is known
	hasChildren bool

	stored      bool // whether the following fields are known; for most ancestors, they are not
	deleted     bool
	body        []member // without members whose names begin with "_"
	attachments []attachment
}

func (r *revision) name() string { return strconv.Itoa(r.generation) + "-" + r.hash }

// parseRev splits the name of a revision.
func parseRev(name string) (generation int, hash string, err error) {
	number, hash, ok := strings.Cut(name, "-")
	generation, err = strconv.Atoi(number)
	if !ok || err != nil || generation < 1 || hash == "" {
		return 0, "", badRequest("Invalid rev format")
	}
	return generation, hash, nil
}

// history returns the hashes of a revision and its ancestors, newest first.
func (r *revision) history() (hashes []string) {
	for ; r != nil; r = r.parent {
		hashes = append(hashes, r.hash)
	}
	return hashes
}

// leaves returns the revisions without children, the winner first. They are sorted by whether they are deleted
// (last), by the length of their history (longest first), and by hash (greatest first).
func (d *document) leaves() (leaves []*revision) {
	for _, r := range d.revs {
		if !r.hasChildren {
			leaves = append(leaves, r)
		}
	}
	slices.SortFunc(leaves, func(a, b *revision) int {
		if a.deleted != b.deleted {
			if b.deleted {
				return -1
			}
			return 1
		}
		return byAge(b, a)
	})
	return leaves
}

func byAge(a, b *revision) int {
	return cmp.Or(cmp.Compare(a.generation, b.generation), strings.Compare(a.hash, b.hash))
}

func (d *document) winner() *revision { return d.leaves()[0] }

// conflicts returns the names of those leaves other than the winner that are deleted or, if deleted is false, are
// not deleted.
func (d *document) conflicts(deleted bool) (names []string) {
	for _, r := range d.leaves()[1:] {
		if r.deleted == deleted {
			names = append(names, r.name())
		}
	}
	return names
}

// leavesOf returns the leaves that descend from a revision, or the revision itself if it is a leaf.
func (d *document) leavesOf(r *revision) (leaves []*revision) {
	for _, leaf := range d.leaves() {
		for a := leaf; a != nil; a = a.parent {
			if a == r {
				leaves = append(leaves, leaf)
				break
			}
		}
	}
	return leaves
}

// graft adds a revision with its history, newest first, to the tree. It returns nil
// if the revision is known already.
func (d *document) graft(generation int, hashes []string) *revision {
	if _, known := d.revs[strconv.Itoa(generation)+"-"+hashes[0]]; known {
		return nil
	}
	var parent *revision
	for i, hash := range slices.Backward(hashes) {
		name := strconv.Itoa(generation-i) + "-" + hash
		r, known := d.revs[name]
		if !known {
			r = &revision{generation: generation - i, hash: hash}
			d.revs[name] = r
		}
		if r.parent == nil && parent != nil {
			r.parent, parent.hasChildren = parent, true
		}
		parent = r
	}
	return parent
}

// edit adds a revision that follows base, the name of a leaf, or "" for a document
// that is new or deleted.
func (d *document) edit(base string, content *revision) (*revision, error) {
	parent := d.revs[base]
	switch {
	case base != "" && (parent == nil || parent.hasChildren):
		return nil, errConflict
	case base == "" && len(d.revs) > 0:
		parent = d.winner()
		if !parent.deleted {
			return nil, errConflict
		}
	}
	content.generation = 1
	if parent != nil {
		content.generation = parent.generation + 1
	}
	content.hash = content.digest(parent)
	if _, known := d.revs[content.name()]; known {
		return nil, errConflict
	}
	content.parent = parent
	if parent != nil {
		parent.hasChildren = true
	}
	d.revs[content.name()] = content
	return content, nil
}

// digest returns the hash of a new revision. Equal edits make equal revisions, even if their JSON is formatted
// differently.
func (r *revision) digest(parent *revision) string {
	h := md5.New()
	if parent != nil {
		fmt.Fprint(h, parent.name())
	}
	fmt.Fprint(h, r.deleted)
	d := json.NewDecoder(bytes.NewReader(object(r.body...)))
	d.UseNumber()
	for token, err := d.Token(); err == nil; token, err = d.Token() {
		fmt.Fprintf(h, "%T%q", token, token)
	}
	for _, a := range r.attachments {
		fmt.Fprint(h, a.name, a.contentType, a.digest())
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
