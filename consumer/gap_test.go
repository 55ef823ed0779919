package consumer

import (
	"io"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/snapshot"
)

// TestGapPolicies removes the entities after the position.
func TestGapPolicies(t *testing.T) {
	const feedText = "a0 b1 | c2 d2 | e3"
	tests := []struct {
		name   string
		at     Start
		policy GapPolicy
		index  string
		want   string
		lost   string
		gaps   int
	}{
		{name: "fail, id", at: at("x2", 2), policy: GapFail, lost: "id"},
		{name: "fail, old", at: at("x0", 1), policy: GapFail, lost: "old"},
		{name: "replay, id", at: at("x2", 2), policy: GapReplay, want: "c d e", gaps: 1},
		{name: "replay, old", at: at("x0", 1), policy: GapReplay, want: "c d e", gaps: 1},
		{name: "replay, all is older", at: at("x9", 1), policy: GapReplay, want: "", gaps: 1},
		{name: "snapshot, id", at: at("x2", 2), policy: GapSnapshot, index: indexURL, want: "key-0 key-1 d e", gaps: 1},
		{name: "snapshot, old", at: at("x0", 1), policy: GapSnapshot, index: indexURL, want: "key-0 key-1 d e", gaps: 1},
		{name: "snapshot is too old as well", at: at("x0", 1), policy: GapSnapshot, index: indexURL + "?old", want: "key-0 key-1", lost: "id", gaps: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSnapshot(newFeed(feedText), 1, 2)
			s.floor = 2
			s.feed = &snapshot.FeedPosition{URL: feedURL, LastModified: second(2), ContentID: "c", Page: pageURL + "2"}
			if strings.HasSuffix(test.index, "?old") {
				s.feed.ContentID = "y"
			}
			inWorld(t, s, func(t *testing.T, w *world) {
				sink := &memorySink{t: t, at: test.at.position}
				stats, err := runJob(t, Job{Client: w.newClient(Config{}), Sink: sink, OnGap: test.policy, SnapshotURL: test.index})
				if kindOfGap(err) != test.lost || stats.Gaps != test.gaps {
					t.Errorf("%+v and error %v", stats, err)
				}
				sink.expect(test.want)
			})
		})
	}
	if _, err := (&Job{Client: &Client{}, OnGap: GapSnapshot}).Run(t.Context()); err == nil {
		t.Error("no snapshot to start over from: no error")
	}
}

// TestJobFromSnapshot starts a job from a snapshot, and makes it crash at each commit, first of the
// snapshot's entities and then of the feed's.
func TestJobFromSnapshot(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		f, want := newFeed("a0 b1 | c2 d2 | e3"), "key-0 key-1 key-2 key-3 key-4 key-5 c d e"
		if quiet {
			f, want = newFeed("a0"), "key-0 key-1 key-2 key-3 key-4 key-5"
		}
		for n := 1; n <= 9; n++ {
			s := newSnapshot(f, 3, 2)
			inWorld(t, s, func(t *testing.T, w *world) {
				commits := 0
				sink := &memorySink{t: t, commit: func() error {
					if commits++; commits == n {
						return io.ErrClosedPipe
					}
					return nil
				}}
				job := Job{Client: w.newClient(Config{}), Sink: sink, From: FromSnapshot(indexURL), BatchEntities: 1}
				_, _ = runJob(t, job)
				if _, err := runJob(t, job); err != nil {
					t.Fatal(err)
				}
				sink.expect(want)
				if sink.at.Snapshot != nil {
					t.Errorf("position is still in the snapshot: %+v", sink.at)
				}
			})
		}
	}
}
