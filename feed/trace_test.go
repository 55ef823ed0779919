package feed_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestParseTrace(t *testing.T) {
	for _, good := range []string{parent, strings.Replace(parent, "-01", "-00", 1), "cc" + parent[2:] + "-what-comes-later"} {
		if got := feed.ParseTrace(good, "a=1"); got != (feed.Trace{Parent: good, State: "a=1"}) {
			t.Errorf("%s: %+v", good, got)
		}
	}
	for _, bad := range []string{
		"", parent[1:], parent + "0", parent + "-more", strings.ToUpper(parent), "ff" + parent[2:], "cc" + parent[2:] + "x",
		"cc" + parent[2:] + "- ", "cc" + parent[2:] + "-" + strings.Repeat("x", 100), strings.ReplaceAll(parent, "-", "_"),
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
	} {
		if got := feed.ParseTrace(bad, ""); !got.IsZero() {
			t.Errorf("%s is taken for a trace context", bad)
		}
	}
	for _, bad := range []string{"a=\n", strings.Repeat("x", 513), " a=1"} {
		if got := feed.ParseTrace(parent, bad); got.State != "" || got.Parent != parent {
			t.Errorf("state %q: %+v", bad, got)
		}
	}
}

func TestSampled(t *testing.T) {
	for flags, want := range map[string]bool{"00": false, "01": true, "02": false, "03": true, "ff": true} {
		if got := (feed.Trace{Parent: parent[:53] + flags}).Sampled(); got != want {
			t.Errorf("flags %s: sampled %v", flags, got)
		}
	}
	if (feed.Trace{}).Sampled() {
		t.Error("the zero Trace is sampled")
	}
}

func TestEntityTrace(t *testing.T) {
	trace := feed.Trace{Parent: parent, State: "a=1"}
	shared := append(make([]feed.Field, 0, 4), feed.Field{Name: "X-Other", Value: "1"})
	e, neighbour := &feed.Entity{Header: shared}, &feed.Entity{Header: shared}
	e.SetTrace(feed.Trace{})
	e.SetTrace(trace)
	e.SetTrace(feed.Trace{Parent: strings.Replace(parent, "00-0", "00-1", 1)}) // no effect: e has a trace context
	neighbour.SetTrace(feed.Trace{Parent: parent})
	want := []feed.Field{{Name: "X-Other", Value: "1"}, {Name: "Traceparent", Value: parent}, {Name: "Tracestate", Value: "a=1"}}
	if diff := cmp.Diff(want, e.Header); diff != "" {
		t.Error(diff)
	}
	if got := e.Trace(); got != trace {
		t.Errorf("%+v", got)
	}
	if got := (&feed.Entity{Header: []feed.Field{{Name: "traceparent", Value: "nonsense"}}}).Trace(); !got.IsZero() {
		t.Errorf("nonsense is %+v", got)
	}
	full := &feed.Entity{ContentType: "text/plain", Header: []feed.Field{{Name: "X", Value: strings.Repeat("x", feed.MaxHeader-100)}}}
	full.SetTrace(trace)
	if len(full.Header) != 1 {
		t.Error("an entity with a large header got a trace context, and cannot be published")
	}
}

func TestTraceOfHeader(t *testing.T) {
	h := http.Header{"Traceparent": {parent}, "Tracestate": {"a=1", "b=2"}}
	if got := feed.TraceOfHeader(h); got != (feed.Trace{Parent: parent, State: "a=1,b=2"}) {
		t.Errorf("%+v", got)
	}
	h.Add("Traceparent", parent)
	if got := feed.TraceOfHeader(h); !got.IsZero() {
		t.Errorf("two parents: %+v", got)
	}
	ctx := feed.ContextWithTrace(t.Context(), feed.Trace{})
	if ctx != t.Context() || !feed.TraceOfContext(ctx).IsZero() {
		t.Error("the zero Trace changes the context")
	}
}

// TestTracesAreBounded: Traces collects a limited number of distinct traces, and only sampled ones.
func TestTracesAreBounded(t *testing.T) {
	var ts feed.Traces
	for n := range 1000 {
		for _, flags := range []string{"00", "01"} {
			e := new(feed.Entity)
			e.SetTrace(feed.Trace{Parent: fmt.Sprintf("00-%032x-%016x-%s", n/2+1, n/2+1, flags)})
			ts.Add(e)
		}
	}
	if len(ts) != 64 || !ts[1].Sampled() || ts[0] == ts[1] {
		t.Errorf("%d traces: %v", len(ts), ts)
	}
}
