package e2e

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/feedctl/feedctl/internal/pgtest"
)

// spans holds the spans that a collector has received, by their ids.
type spans struct {
	mu   sync.Mutex
	all  map[string]*tracepb.Span
	from map[string]bool // attributes of the processes
}

// collectSpans starts a collector of OpenTelemetry traces, and returns its URL and the spans that it receives.
func collectSpans(t *testing.T) (string, *spans) {
	s := &spans{all: map[string]*tracepb.Span{}, from: map[string]bool{}}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, resource := range data.GetResourceSpans() {
			for _, a := range resource.GetResource().GetAttributes() {
				s.from[a.GetKey()+"="+a.GetValue().GetStringValue()] = true
			}
			for _, scope := range resource.GetScopeSpans() {
				for _, span := range scope.GetSpans() {
					s.all[hex.EncodeToString(span.GetSpanId())] = span
				}
			}
		}
	}))
	t.Cleanup(collector.Close)
	return collector.URL, s
}

// names returns the names of all spans.
func (s *spans) names() (names []string) {
	for _, span := range s.all {
		names = append(names, span.GetName())
	}
	slices.Sort(names)
	return names
}

// after returns the names of all spans that the spans with a name lead to: those spans, the spans that have one of them as
// their parent or link to one, and so on.
func (s *spans) after(name string) map[string]bool {
	reached := map[string]bool{}
	for id, span := range s.all {
		if span.GetName() == name {
			reached[id] = true
		}
	}
	for before := 0; before != len(reached); {
		before = len(reached)
		for id, span := range s.all {
			linked := slices.ContainsFunc(span.GetLinks(), func(l *tracepb.Span_Link) bool { return reached[hex.EncodeToString(l.GetSpanId())] })
			if linked || reached[hex.EncodeToString(span.GetParentSpanId())] {
				reached[id] = true
			}
		}
	}
	names := map[string]bool{}
	for id := range reached {
		names[s.all[id].GetName()] = true
	}
	return names
}

// TestTrace follows an entity from its publisher through a server to a sink: three processes.
func TestTrace(t *testing.T) {
	t.Parallel()
	collector, s := collectSpans(t)
	dir := t.TempDir()
	urlFile, table := filepath.Join(dir, "url"), "sqlite:"+filepath.Join(dir, "zones.db")
	store := "file:" + filepath.Join(dir, "store")
	feedctl(t, "init", store)
	server := &process{t: t, name: "server", args: []string{
		"serve", "--store", store, "--writable", "--listen", "127.0.0.1:0", "--ready-file", urlFile, "--trace", collector,
	}}
	server.start()
	t.Cleanup(func() { server.kill(os.Kill) })
	base := ""
	waitFor(t, server.stderr.String, func() bool {
		text, _ := os.ReadFile(urlFile)
		base = strings.TrimSpace(string(text))
		return base != ""
	})
	input := filepath.Join(dir, "input")
	if err := os.WriteFile(input, []byte("{\"id\":1}\n{\"id\":2}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	feedctl(t, "publish", "zones", input, "--key", "/id", "--to", base, "--trace", collector)
	feedctl(t, "consume", base+"/feeds/zones", "--into", table, "--trace", collector)
	feedctl(t, "verify", base+"/feeds/zones", "--trace", collector)
	server.kill(syscall.SIGTERM)

	s.mu.Lock()
	defer s.mu.Unlock()
	reached := s.after("send zones")
	for _, name := range []string{
		"send zones", "POST", "POST /feeds", "commit zones", "store create", // published
		"process zones", "commit " + table, // consumed
	} {
		if !reached[name] {
			t.Errorf("the publisher's trace does not reach %q", name)
		}
	}
	if reached["GET /feeds"] {
		t.Error("the request for the page is part of the publisher's trace")
	}
	reached = s.after("GET") // the consumer's request
	for _, name := range []string{"GET /feeds", "store get", "process zones"} {
		if !reached[name] {
			t.Errorf("the trace of the request for the page does not reach %q", name)
		}
	}
	if !s.after("feedctl verify")["GET /feeds"] {
		t.Error("the requests of verify are not part of its trace")
	}
	if t.Failed() {
		t.Logf("%q, reached %v", s.names(), reached)
	}
	if !s.from["service.name=feedctl"] {
		t.Errorf("the spans are from %v, want service.name=feedctl", s.from)
	}
}

// TestTraceDeadCollector: if the collector does not respond, commands do their work, and log the failure once.
func TestTraceDeadCollector(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	publish := &process{t: t, name: "publish", args: []string{
		"publish", "zones", "--store", "file:" + filepath.Join(dir, "store"), "--trace", "http://" + freeAddress(t), "--log-level", "warn",
	}, input: func(w io.Writer) error {
		_, err := io.WriteString(w, `{"id":"UTC"}`)
		return err
	}}
	publish.start()
	<-publish.exited
	if out := publish.stderr.String(); publish.err != nil || !strings.Contains(out, "published 1 entity") || strings.Count(out, "\n") != 2 || !strings.Contains(out, "connection refused") {
		t.Errorf("publish: %v\n%s", publish.err, out)
	}
}

// TestTraceOutbox: an event that an application wrote in a trace leads to the commits of its page and
// of the sink. Nothing else of the runner is sampled.
func TestTraceOutbox(t *testing.T) {
	collector, s := collectSpans(t)
	t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0")
	database, sink := pgtest.Start(t).URL("trace"), "sqlite:"+filepath.Join(t.TempDir(), "orders.db")
	feedctl(t, "init", database)
	change(t, database, `INSERT INTO feedctl.outbox (feed, key, op, body, content_type, headers) VALUES
		('orders', '1', 'PUT', '{}', 'application/json', '{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}')`)
	feedctl(t, "outbox", "run", "--db", database, "--feed", "orders", "--once", "--trace", collector)
	feedctl(t, "consume", database+"#orders", "--into", sink, "--trace", collector)

	s.mu.Lock()
	defer s.mu.Unlock()
	linked := map[string]bool{}
	for _, span := range s.all {
		for _, l := range span.GetLinks() {
			linked[span.GetName()] = hex.EncodeToString(l.GetTraceId())+hex.EncodeToString(l.GetSpanId()) == "0af7651916cd43dd8448eb211c80319c"+"b7ad6b7169203331"
		}
	}
	if !linked["commit orders"] || !linked["process orders"] || slices.ContainsFunc(s.names(), func(name string) bool { return strings.HasPrefix(name, "feedctl ") }) {
		t.Errorf("spans %q, linked to the application: %v", s.names(), linked)
	}
}
