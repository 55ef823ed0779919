// Package tracing records traces with OpenTelemetry: of the requests that a process sends and
// answers, and of batches of entities on their way from a publisher to a sink.
//
// A publisher's trace context (W3C Trace Context) is in the header of each entity; see
// [feed.Trace]. Batches mix the entities of many publishers, so a span about a batch is not the
// child of their spans but has links to them.
//
// A nil *Tracer is valid and records nothing: its methods return their arguments unchanged.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/feedctl/feedctl/feed"
)

// flushTime limits how long Close waits for the collector.
const flushTime = 2 * time.Second

// A Tracer records spans and sends them to a collector. Spans that the collector does not take in
// time are dropped: recording never waits for it.
type Tracer struct {
	provider *sdktrace.TracerProvider
	// spans makes the spans that begin or continue a trace. It samples as OTEL_TRACES_SAMPLER and
	// OTEL_TRACES_SAMPLER_ARG say.
	spans trace.Tracer
	// linked makes the spans of batches with links to sampled spans of publishers. It samples all batches.
	linked trace.Tracer
}

// Open returns a tracer that sends its spans to the collector at a URL with OTLP over HTTP. It does
// not connect to the collector. The SDK reads OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG and OTEL_BSP_*. Header fields for the collector,
// such as a credential, are in OTEL_EXPORTER_OTLP_HEADERS.
func Open(ctx context.Context, collector, version string, log *slog.Logger) (*Tracer, error) {
	u, err := url.Parse(collector)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the URL of a collector must be http(s)://HOST[:PORT][/PATH], such as http://127.0.0.1:4318; credentials are in OTEL_EXPORTER_OTLP_HEADERS")
	}
	header, err := parseHeaders(os.Getenv("OTEL_EXPORTER_OTLP_HEADERS"))
	if err != nil {
		return nil, fmt.Errorf("read OTEL_EXPORTER_OTLP_HEADERS: %w", err)
	}
	return newTracer(ctx, newClient(u.JoinPath("v1", "traces").String(), header, log), version)
}

func newTracer(ctx context.Context, to otlptrace.Client, version string) (*Tracer, error) {
	exporter, err := otlptrace.New(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	own := resource.NewSchemaless(attribute.String(serviceName, "feedctl"), attribute.String(serviceVersion, version))
	about, err := resource.Merge(own, resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	// The providers share the processor, which the first provider shuts down.
	options := []sdktrace.TracerProviderOption{sdktrace.WithSpanProcessor(sdktrace.NewBatchSpanProcessor(exporter)), sdktrace.WithResource(about)}
	provider := sdktrace.NewTracerProvider(options...)
	all := sdktrace.NewTracerProvider(append(options, sdktrace.WithSampler(sdktrace.AlwaysSample()))...)
	return &Tracer{provider, provider.Tracer(scope), all.Tracer(scope)}, nil
}

// Close sends what has been recorded, and gives up after 2 s.
func (t *Tracer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the client has logged why it failed
	return nil
}

type tracerKey struct{}

// NewContext returns a context from which [FromContext] gets the tracer.
func NewContext(ctx context.Context, t *Tracer) context.Context {
	return context.WithValue(ctx, tracerKey{}, t)
}

// FromContext returns the tracer that [NewContext] has added to a context, or nil.
func FromContext(ctx context.Context) *Tracer {
	t, _ := ctx.Value(tracerKey{}).(*Tracer)
	return t
}

// Command begins a span about a command. The function that it returns ends the span.
func (t *Tracer) Command(ctx context.Context, name string) (context.Context, func(error)) {
	if t == nil {
		return ctx, func(error) {}
	}
	ctx, span := t.spans.Start(ctx, name)
	return publishing(ctx, span), func(err error) { end(span, err) }
}

// publishing returns a context in which entities are published with the trace context of a span.
func publishing(ctx context.Context, span trace.Span) context.Context {
	header := http.Header{}
	inject(trace.ContextWithSpan(ctx, span), header)
	return feed.ContextWithTrace(ctx, feed.TraceOfHeader(header))
}

// linksTo returns links to the spans in which entities were published.
func linksTo(traces feed.Traces) []trace.Link {
	links := make([]trace.Link, 0, len(traces))
	for _, tc := range traces {
		if span := spanOf(tc); span.IsValid() {
			links = append(links, trace.Link{SpanContext: span})
		}
	}
	return links
}

// of returns the tracer for the span of a batch that has the given links to the spans of its
// publishers.
func (t *Tracer) of(links []trace.Link) trace.Tracer {
	if len(links) > 0 {
		return t.linked
	}
	return t.spans
}

// end ends a span; err is the outcome of the work that the span is about.
func end(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}
