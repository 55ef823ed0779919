package jobs_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// TestAdmitTogether: two nodes start jobs of a namespace at the same time. The first node, which has
// room for all jobs, does not keep the second from starting some.
func TestAdmitTogether(t *testing.T) {
	t.Parallel()
	var during func()
	db, err := jobdb.Open(t.Context(), pgtest.Start(t).URL("admit"), jobdb.Options{Before: func(_ context.Context, sql string) {
		if do := during; do != nil && strings.HasPrefix(sql, "INSERT INTO @event") {
			during = nil
			do()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
	const many = 60
	var documents []jobs.Document
	for n := range many {
		documents = append(documents, jobs.Document{Namespace: "n", Name: fmt.Sprint(n), Kind: "fake", Source: fmt.Sprint(n)})
	}
	apply(t, s, documents...)
	admit := func(most int) int {
		node, err := s.Join(t.Context(), jobs.Node{Name: "n", Slots: most})
		if err != nil {
			t.Error(err)
		}
		runs, err := s.Admit(t.Context(), node, most)
		if err != nil {
			t.Error(err)
		}
		return len(runs)
	}
	second := 0
	during = func() { second = admit(many / 2) }
	first := admit(many)
	if first != many/2 || second != many/2 {
		t.Errorf("the nodes started %d and %d jobs, want %d each", first, second, many/2)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
