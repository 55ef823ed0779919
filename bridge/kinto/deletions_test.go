package kinto

import (
	"net/http"
	"testing"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/producer"
)

// commits returns how many batches were published to the feed.
func (r *rig) commits() int64 {
	r.t.Helper()
	newest, err := chain.NewReader(r.store, testFeed).Newest(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	at, err := bridge.ParseCheckpoint(newest.Checkpoint, kind, testFeed)
	if err != nil {
		r.t.Fatal(err)
	}
	return at.Commit
}

// TestManyDeletions: deletions, which have no bodies, are published in batches of a limited number.
func TestManyDeletions(t *testing.T) {
	for name, remove := range map[string]func(r *rig){
		"collection is gone": func(r *rig) { r.removeCollection() },
		"no tombstones":      func(r *rig) { r.removeCollection(); r.createCollection() },
		"tombstones":         func(r *rig) { kintotest.Send(r.t, http.MethodDelete, r.url+"/records", "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := kintotest.NewFake(t)
			r := newRigOf(t, fake.NewCollection(t))
			const records = 10_000
			fake.Fill(r.url, records, func(int) string { return `{}` })
			r.configure = func(c *Config) { c.OnGone, c.MaxGone, c.Producer = Delete, 100, producer.Config{SpoolDir: r.dir} }
			r.run()
			before := r.commits()
			remove(r)
			if report := r.run(); report.Published != records {
				t.Errorf("report is %+v", report)
			}
			if got := r.commits() - before; got < 3 {
				t.Errorf("%d deletions are published in %d batches", records, got)
			}
		})
	}
}
