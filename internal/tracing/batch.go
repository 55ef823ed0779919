package tracing

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/publish"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/observe"
)

// aboutFeed returns the attributes of a span about a batch of a feed.
func aboutFeed(name, operation, kind string, entities int) trace.SpanStartOption {
	return trace.WithAttributes(
		attribute.String(messagingSystem, "feedctl"), attribute.String(messagingDestination, name),
		attribute.String(messagingOperation, operation), attribute.String(messagingType, kind), attribute.Int(messagingCount, entities),
	)
}

// Target wraps a target. The result records each batch that is published to the feed, as a trace of its own.
func (t *Tracer) Target(name string, to publish.Target) publish.Target {
	if t == nil {
		return to
	}
	return &target{t, name, to}
}

type target struct {
	t    *Tracer
	feed string
	to   publish.Target
}

// Begin implements [publish.Target].
func (p *target) Begin(ctx context.Context, entities []*feed.Entity, more bool) (func() (publish.Receipt, error), error) {
	ctx, span := p.t.spans.Start(ctx, "send "+p.feed, trace.WithSpanKind(trace.SpanKindProducer), aboutFeed(p.feed, "send", "send", len(entities)))
	wait, err := p.to.Begin(publishing(ctx, span), entities, more)
	if err != nil {
		end(span, err)
		return nil, err
	}
	return func() (publish.Receipt, error) {
		receipt, err := wait()
		end(span, err)
		return receipt, err
	}, nil
}

// Writes returns a function for [producer.Config.Observe] that records the writes of pages, or nil without a tracer.
func (t *Tracer) Writes() func(context.Context, producer.PageWrite) (context.Context, func(error)) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, w producer.PageWrite) (context.Context, func(error)) {
		links := linksTo(w.Traces)
		ctx, span := t.of(links).Start(ctx, "commit "+w.Feed, trace.WithLinks(links...), aboutFeed(w.Feed, "commit", "send", w.Entities),
			trace.WithAttributes(attribute.Int64(feedPage, w.Page)))
		return ctx, func(err error) { end(span, err) }
	}
}

// Store wraps a store. The result records the operations that are part of a trace.
func (t *Tracer) Store(store storage.Store) storage.Store {
	if t == nil {
		return store
	}
	return observe.Wrap(store, func(ctx context.Context, o observe.Operation) {
		if !trace.SpanContextFromContext(ctx).IsSampled() {
			return
		}
		now := time.Now()
		_, span := t.linked.Start(ctx, "store "+o.Name, trace.WithTimestamp(now.Add(-o.Took)), trace.WithAttributes(attribute.String(storeKey, o.Key)))
		if o.Failed() {
			span.SetStatus(codes.Error, o.Err.Error())
		}
		span.End(trace.WithTimestamp(now))
	})
}

// Batches returns a context for a job that consumes a feed, and a function for [consumer.Job.Observe] that records
// the job's batches, or nil without a tracer. A batch has links to the spans in which its entities were published,
// and to the requests since the previous batch. The feed is named by its name, STORE#NAME or URL; neither this nor
// the name of the sink may contain credentials.
func (t *Tracer) Batches(ctx context.Context, name, sink string) (context.Context, func(context.Context, consumer.Commit) (context.Context, func(error))) {
	if t == nil {
		return ctx, nil
	}
	recent := new(fetches)
	ctx = context.WithValue(ctx, fetchesKey{}, recent)
	for _, before := range []string{"#", "/feeds/"} { // STORE#NAME, or a URL
		if _, short, ok := strings.Cut(name, before); ok {
			name = short
		}
	}
	return ctx, func(ctx context.Context, c consumer.Commit) (context.Context, func(error)) {
		if c.Entities == 0 {
			return ctx, func(error) {}
		}
		links := linksTo(c.Traces)
		tracer := t.of(links)
		links = append(links, recent.take()...)
		ctx, batch := tracer.Start(ctx, "process "+name, trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(c.Begun),
			trace.WithLinks(links...), aboutFeed(name, "process", "process", c.Entities),
			trace.WithAttributes(attribute.String(feedPage, c.Page), attribute.String(feedSink, sink), attribute.Int64(entityBytes, c.Bytes)))
		ctx, commit := tracer.Start(ctx, "commit "+sink, trace.WithAttributes(attribute.String(feedSink, sink)))
		return ctx, func(err error) {
			end(commit, err)
			end(batch, err)
		}
	}
}

// maxFetches limits [fetches].
const maxFetches = 16

// fetches holds the spans of the last requests of a job.
type fetches struct {
	mu    sync.Mutex
	spans []trace.SpanContext
}

type fetchesKey struct{}

// fetchesOf returns the fetches in a context, or nil.
func fetchesOf(ctx context.Context) *fetches {
	f, _ := ctx.Value(fetchesKey{}).(*fetches)
	return f
}

func (f *fetches) add(span trace.SpanContext) {
	if f == nil || !span.IsSampled() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.spans) == maxFetches {
		f.spans = slices.Delete(f.spans, 0, 1)
	}
	f.spans = append(f.spans, span)
}

// take returns links to the requests since the last call.
func (f *fetches) take() (links []trace.Link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, span := range f.spans {
		links = append(links, trace.Link{SpanContext: span})
	}
	f.spans = f.spans[:0]
	return links
}
