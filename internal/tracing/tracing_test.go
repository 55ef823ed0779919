package tracing_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/tracing"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A collector receives spans.
type collector struct {
	URL    string
	mu     sync.Mutex
	spans  []*tracepb.Span
	header http.Header // of the last request
}

func newCollector(t *testing.T) *collector {
	c := new(collector)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.header = r.Header
		for _, resource := range data.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				c.spans = append(c.spans, scope.GetSpans()...)
			}
		}
	}))
	t.Cleanup(web.Close)
	c.URL = web.URL
	return c
}

// names returns the names of the spans, sorted.
func (c *collector) names() (names []string) {
	for _, s := range c.spans {
		names = append(names, s.GetName())
	}
	slices.Sort(names)
	return names
}

func (c *collector) named(t *testing.T, name string) *tracepb.Span {
	t.Helper()
	for _, s := range c.spans {
		if s.GetName() == name {
			return s
		}
	}
	t.Fatalf("there is no span %q, only %q", name, c.names())
	return nil
}

// quiet clears the environment variables that configure the SDK.
func quiet(t *testing.T) {
	for _, name := range []string{"OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_EXPORTER_OTLP_HEADERS"} {
		t.Setenv(name, "")
	}
}

func open(t *testing.T, url string, log *slog.Logger) *tracing.Tracer {
	t.Helper()
	tracer, err := tracing.Open(t.Context(), url, "v1", log)
	if err != nil {
		t.Fatal(err)
	}
	return tracer
}

// TestOff: without a tracer, nothing is wrapped and nothing is allocated.
func TestOff(t *testing.T) {
	ctx := t.Context()
	tracer := tracing.FromContext(ctx)
	handler, transport, store := http.NotFoundHandler(), http.DefaultTransport, memory.New()
	if tracer != nil || tracer.Transport(transport) != transport || tracer.Store(store) != storage.Store(store) || tracer.Writes() != nil || tracer.Target("f", nil) != nil {
		t.Error("something is wrapped")
	}
	if under, observe := tracer.Batches(ctx, "f", "s"); under != ctx || observe != nil {
		t.Error("batches are observed without a tracer")
	}
	e := &feed.Entity{Header: []feed.Field{{Name: "X-Other", Value: "1"}}}
	if n := testing.AllocsPerRun(100, func() {
		_ = tracer.Handler(handler)
		e.SetTrace(feed.TraceOfContext(feed.ContextWithTrace(ctx, feed.TraceOfHeader(http.Header{}))))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestWrongCollector(t *testing.T) {
	quiet(t)
	for _, url := range []string{"", "127.0.0.1:4318", "ftp://host", "http://", "http://user:secret@host", "http://host?x=secret", "http://host#secret", "http://[secret"} {
		if _, err := tracing.Open(t.Context(), url, "v1", slog.Default()); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	for _, header := range []string{"secret", "=secret", "a=b,secret", "a=%zzsecret"} {
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", header)
		if _, err := tracing.Open(t.Context(), "http://host", "v1", slog.Default()); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", header, err)
		}
	}
}

// TestDeadCollector: if the collector is gone, work is neither delayed nor stopped, and there is
// one line in the log.
func TestDeadCollector(t *testing.T) {
	quiet(t)
	requests := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer web.Close()
	var lines bytes.Buffer
	tracer := open(t, web.URL, slog.New(slog.NewTextHandler(&lines, nil)))
	for range 5000 { // more than the queue holds, so some are dropped
		_, end := tracer.Command(t.Context(), "work")
		end(nil)
	}
	if err := tracer.Close(); err != nil {
		t.Error(err)
	}
	if requests < 2 || strings.Count(lines.String(), "\n") != 1 || !strings.Contains(lines.String(), "503") {
		t.Errorf("%d requests: %s", requests, &lines)
	}
}

func TestHeaders(t *testing.T) {
	quiet(t)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret, x-tenant = one")
	c := newCollector(t)
	tracer := open(t, c.URL, slog.Default())
	_, end := tracer.Command(t.Context(), "work")
	end(errors.New("what is wrong"))
	tracer.Close()
	if c.header.Get("Authorization") != "Bearer secret" || c.header.Get("X-Tenant") != "one" {
		t.Errorf("%v", c.header)
	}
	if got := c.named(t, "work").GetStatus(); got.GetCode() != tracepb.Status_STATUS_CODE_ERROR || got.GetMessage() != "what is wrong" {
		t.Errorf("%v", got)
	}
}

// TestRedirect: a collector that redirects spans does not cause the credentials to be sent
// elsewhere.
func TestRedirect(t *testing.T) {
	quiet(t)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-api-key=secret")
	elsewhere := newCollector(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+"/v1/traces", http.StatusTemporaryRedirect)
	}))
	defer web.Close()
	var lines bytes.Buffer
	tracer := open(t, web.URL, slog.New(slog.NewTextHandler(&lines, nil)))
	_, end := tracer.Command(t.Context(), "work")
	end(nil)
	tracer.Close()
	if elsewhere.header != nil || !strings.Contains(lines.String(), "307") {
		t.Errorf("header %v was sent to another server; log: %s", elsewhere.header, &lines)
	}
}

// TestSampling: with a ratio of 0, only what belongs to the traces of others is recorded.
func TestSampling(t *testing.T) {
	quiet(t)
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0")
	c := newCollector(t)
	tracer := open(t, c.URL, slog.Default())
	_, end := tracer.Command(t.Context(), "command")
	end(nil)
	ctx, batch := tracer.Batches(t.Context(), "http://127.0.0.1/feeds/a/b", "sqlite:x.db")
	_, end = batch(ctx, consumer.Commit{Begun: time.Now(), Entities: 1})
	end(nil)
	_, stored := tracer.Batches(t.Context(), "file:/feeds/x#c", "sqlite:x.db")
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	_, end = batch(ctx, consumer.Commit{Begun: time.Now(), Entities: 1, Traces: feed.Traces{{Parent: parent}}})
	end(nil)
	_, end = stored(ctx, consumer.Commit{Begun: time.Now(), Entities: 1, Traces: feed.Traces{{Parent: parent}}})
	end(nil)
	_, end = tracer.Writes()(ctx, producer.PageWrite{Feed: "f", Entities: 1, Traces: feed.Traces{{Parent: parent, State: "a=1"}}})
	end(nil)
	tracer.Close()
	if got := c.names(); !slices.Equal(got, []string{"commit f", "commit sqlite:x.db", "commit sqlite:x.db", "process a/b", "process c"}) {
		t.Errorf("%q", got)
	}
	for _, name := range []string{"commit f", "process a/b"} {
		s := c.named(t, name)
		if l := s.GetLinks(); len(l) != 1 || hex.EncodeToString(l[0].GetSpanId()) != "b7ad6b7169203331" || len(s.GetParentSpanId()) > 0 {
			t.Errorf("%s: %v", name, s)
		}
	}
}

// TestStore: operations that are part of a trace are recorded, others are not.
func TestStore(t *testing.T) {
	quiet(t)
	c := newCollector(t)
	tracer := open(t, c.URL, slog.Default())
	store := tracer.Store(memory.New())
	_, _ = store.Stat(t.Context(), "poll")
	ctx, end := tracer.Command(t.Context(), "command")
	_, _ = store.Stat(ctx, "work")
	end(nil)
	tracer.Close()
	if got := c.names(); !slices.Equal(got, []string{"command", "store stat"}) {
		t.Errorf("%q", got)
	}
	if !bytes.Equal(c.named(t, "store stat").GetParentSpanId(), c.named(t, "command").GetSpanId()) {
		t.Error("the operation is not part of the command")
	}
}

// TestRequest: a request and its answer are parts of one trace. The trace contains no credentials, and probes are not
// recorded.
func TestRequest(t *testing.T) {
	quiet(t)
	c := newCollector(t)
	tracer := open(t, c.URL, slog.Default())
	var inside feed.Trace
	web := httptest.NewServer(tracer.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inside = feed.TraceOfHeader(r.Header)
		w.WriteHeader(http.StatusTeapot)
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(w, strings.NewReader("body"))
	})))
	defer web.Close()
	client := &http.Client{Transport: tracer.Transport(http.DefaultTransport)}
	defer client.CloseIdleConnections()
	for _, path := range []string{"/feeds/a?token=secret", "/healthz"} {
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, strings.Replace(web.URL, "://", "://user:secret@", 1)+path, nil)
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(response.Body); string(body) != "body" || err != nil {
			t.Errorf("%q, %v", body, err)
		}
		response.Body.Close()
	}
	tracer.Close()
	if got := c.names(); !slices.Equal(got, []string{"GET", "GET", "GET /feeds"}) {
		t.Fatalf("%q", got)
	}
	answer := c.named(t, "GET /feeds")
	asked := slices.ContainsFunc(c.spans, func(s *tracepb.Span) bool {
		return bytes.Equal(s.GetSpanId(), answer.GetParentSpanId()) && bytes.Equal(s.GetTraceId(), answer.GetTraceId())
	})
	if !asked || inside.IsZero() {
		t.Errorf("%v has no parent in %v; the handler sees %v", answer, c.spans, inside)
	}
	for _, s := range c.spans {
		if text := s.String(); strings.Contains(text, "secret") {
			t.Error(text)
		}
	}
}
