package couchtest

import (
	"maps"
	"os"
	"path"
	"slices"
	"testing"
)

// Snapshot keeps a copy of a database, and returns a function that restores that state. The effect
// is the same as if the server were stopped, its files were replaced with those of a backup, and it
// were started again.
func (f *Fake) Snapshot(database string) (restore func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.byURL(database).clone()
	return func() {
		f.mu.Lock()
		f.databases[path.Base(database)] = kept.clone()
		f.mu.Unlock()
		f.Drop()
	}
}

// clone returns a copy. The two databases share only values that never change.
func (db *database) clone() *database {
	c := *db
	c.docs, c.rewinds = map[string]*document{}, slices.Clone(db.rewinds)
	c.local = maps.Clone(db.local) // a localDoc is replaced, never changed
	copies := map[*document]*document{nil: nil}
	for shard, log := range db.log {
		c.log[shard] = slices.Clone(log)
		for i, e := range log {
			if copies[e.doc] == nil && e.doc != nil {
				copies[e.doc] = e.doc.clone()
			}
			c.log[shard][i].doc = copies[e.doc]
		}
	}
	for id, d := range db.docs {
		c.docs[id] = copies[d]
	}
	return &c
}

func (d *document) clone() *document {
	c := *d
	c.revs = map[string]*revision{}
	for name, r := range d.revs {
		copied := *r
		c.revs[name] = &copied
	}
	for _, r := range c.revs {
		if r.parent != nil {
			r.parent = c.revs[r.parent.name()]
		}
	}
	return &c
}

// Snapshot copies the files of a server from [StartOwn], and returns a function that puts them
// back. Both stop the server meanwhile, so that the files are consistent.
func (s *Server) Snapshot(t testing.TB) (restore func()) {
	t.Helper()
	kept := t.TempDir()
	s.copyFiles(t, s.dir, kept)
	return func() { t.Helper(); s.copyFiles(t, kept, s.dir) }
}

// copyFiles replaces a directory with a copy of another while the server is stopped.
func (s *Server) copyFiles(t testing.TB, from, to string) {
	t.Helper()
	s.Kill()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
}
