package server

import (
	"fmt"
	"testing"

	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/memory"
)

func TestProducers(t *testing.T) {
	p := newProducers(memory.New(), producer.Config{}, 2)
	acquire := func(n int) (*producer.Feed, func()) {
		t.Helper()
		f, release, err := p.acquire(t.Context(), fmt.Sprintf("f%d", n))
		if err != nil {
			t.Fatal(err)
		}
		return f, release
	}
	var releases []func()
	for n := range 4 {
		_, release := acquire(n)
		releases = append(releases, release)
	}
	if len(p.byFeed) != 4 {
		t.Errorf("%d are open, but four are in use", len(p.byFeed))
	}
	for _, release := range releases {
		release()
	}
	if len(p.byFeed) != 2 || len(p.idle) != 2 {
		t.Errorf("%d are open and %d idle, want 2 of each", len(p.byFeed), len(p.idle))
	}
	first, release := acquire(3)
	again, releaseAgain := acquire(3)
	if first != again || len(p.idle) != 1 {
		t.Errorf("a feed has two producers, or one in use counts as idle (%d)", len(p.idle))
	}
	release()
	releaseAgain()
	if _, _, err := p.acquire(t.Context(), "a/b"); err == nil {
		t.Error("a feed with an invalid name was opened")
	} else if _, open := p.byFeed["a/b"]; open {
		t.Error("a feed that could not be opened is remembered")
	}
	if err := p.close(); err != nil || len(p.byFeed) != 0 {
		t.Errorf("close: %v, %d are open", err, len(p.byFeed))
	}
}
