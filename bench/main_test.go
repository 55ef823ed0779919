package main

import (
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestChoose(t *testing.T) {
	all := sections()
	for list, want := range map[string]int{"": len(all), "codec": 1, "codec,s3": 2, "jobs": len(jobsSections()), "jobs-idle": 1, "s": -1, "typo": -1, "codec,typo": -1} {
		chosen, err := choose(all, list)
		if (err != nil) != (want < 0) || err == nil && len(chosen) != want {
			t.Errorf("%q: %d sections, %v", list, len(chosen), err)
		}
	}
}

func TestExplain(t *testing.T) {
	err := error(&exec.ExitError{Stderr: []byte("no space\n")})
	if got := explain(errors.Join(err)).Error(); !strings.HasSuffix(got, ": no space") {
		t.Error(got)
	}
}

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		target      target
		ours, other float64
		want        bool
	}{
		{atMost(2), 2, 0, true},
		{atMost(0), 1, 0, false},
		{withinTenth(), 22.5, 25, true},
		{withinTenth(), 27.6, 25, false},
		{withinTenth(), 22.4, 25, false},
	} {
		r := newReport(io.Discard)
		if r.add("n", "u", c.ours, c.other, "o", c.target); r.rows[0].Pass != c.want {
			t.Errorf("%g beside %g, target %q: pass is %v", c.ours, c.other, c.target.text, !c.want)
		}
	}
}

// TestRounds: the median of three rounds is compared with the target, or the worst round if the row
// was added with addWorst.
func TestRounds(t *testing.T) {
	for _, c := range []struct {
		name   string
		add    func(*report, string, string, float64, float64, string, target)
		rounds []sample
		target target
		want   string
	}{
		{"median passes", (*report).add, []sample{{10, 10}, {1, 10}, {9, 10}}, atLeastRatio(.9), "pass"},
		{"ratio of rounds, not of medians", (*report).add, []sample{{10, 14}, {8, 10}, {9, 12}}, atLeastRatio(.75), "pass"},
		{"worst misses", (*report).addWorst, []sample{{1, 64}, {70, 64}, {2, 64}}, below(64), "MISS"},
		{"noisy", (*report).add, []sample{{10, 10}, {10, 16}, {10, 10}}, atLeastRatio(.9), "noisy"},
		{"no target", (*report).add, []sample{{10, 10}, {10, 16}}, noTarget(), ""},
	} {
		r := newReport(io.Discard)
		for _, s := range c.rounds {
			c.add(r, "n", "u", s.ours, s.other, "o", c.target)
		}
		if len(r.rows) != 1 || r.rows[0].verdict() != c.want {
			t.Errorf("%s: %d rows, the first: %q", c.name, len(r.rows), r.rows[0].verdict())
		}
	}
}

func TestPercentile(t *testing.T) {
	var took []time.Duration
	for n := range 101 {
		took = append(took, time.Duration(100-n))
	}
	for part, want := range map[float64]time.Duration{0: 0, .5: 50, .95: 95, 1: 100} {
		if got := percentile(took, part); got != want {
			t.Errorf("%g of all took %d, want %d", part, got, want)
		}
	}
}

// TestLimitedServer sends more requests at a time than the server allows in two seconds.
func TestLimitedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &limitedServer{perSecond: 3}
		for range 10 {
			l.allow()
		}
		time.Sleep(time.Second)
		if !l.allow() || l.allowed != 4 || l.refused != 7 {
			t.Errorf("%d requests were allowed and %d refused, want 4 and 7", l.allowed, l.refused)
		}
	})
}
