package tracing

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/recorded"
)

// inject adds the trace context of ctx to the header of a request.
func inject(ctx context.Context, header http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(header))
}

// spanOf returns the span that a trace context identifies.
func spanOf(t feed.Trace) trace.SpanContext {
	carrier := propagation.MapCarrier{"traceparent": t.Parent, "tracestate": t.State}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// Transport wraps a transport. The result records each request, and adds the trace context to its header. A span ends
// when the body of the response has been read.
func (t *Tracer) Transport(next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	return &transport{t, next}
}

type transport struct {
	t    *Tracer
	next http.RoundTripper
}

func (c *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	address := *r.URL
	address.User, address.RawQuery, address.Fragment = nil, "", "" // they may be secrets
	ctx, span := c.t.spans.Start(r.Context(), r.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String(httpMethod, r.Method), attribute.String(urlFull, address.String()), attribute.String(serverAddress, r.URL.Hostname()),
	))
	r = r.Clone(ctx)
	inject(ctx, r.Header)
	response, err := c.next.RoundTrip(r)
	if err != nil {
		end(span, err)
		return nil, err
	}
	span.SetAttributes(attribute.Int(httpStatus, response.StatusCode))
	if response.StatusCode >= http.StatusBadRequest {
		span.SetStatus(codes.Error, response.Status)
		span.SetAttributes(attribute.String(errorType, strconv.Itoa(response.StatusCode)))
	}
	if r.Method == http.MethodGet && response.StatusCode/100 == 2 {
		fetchesOf(r.Context()).add(span.SpanContext())
	}
	if response.Body == nil || response.Body == http.NoBody || response.StatusCode == http.StatusSwitchingProtocols {
		span.End()
		return response, nil
	}
	response.Body = &tracedBody{response.Body, span}
	return response, nil
}

// CloseIdleConnections is for [http.Client].
func (c *transport) CloseIdleConnections() {
	if idle, ok := c.next.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}

// A tracedBody ends a span when the body has been read, or is closed.
type tracedBody struct {
	io.ReadCloser
	span trace.Span
}

func (b *tracedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.span.End()
	} else if err != nil {
		end(b.span, err)
	}
	return n, err
}

func (b *tracedBody) Close() error {
	err := b.ReadCloser.Close()
	b.span.End()
	return err
}

// Handler wraps a handler. The result records requests as part of their senders' traces. Whatever the handler
// publishes is part of these traces, too.
func (t *Tracer) Handler(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" || r.URL.Path == "/metrics" {
			next.ServeHTTP(w, r)
			return
		}
		top, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.spans.Start(ctx, spanName(r.Method, top), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			attribute.String(httpMethod, r.Method), attribute.String(urlPath, r.URL.Path), attribute.String(userAgent, r.UserAgent()),
			attribute.String(networkVersion, strings.TrimPrefix(r.Proto, "HTTP/")),
		))
		defer span.End() // even if the response was cut off
		r = r.Clone(ctx)
		inject(ctx, r.Header)
		answer := &recorded.Response{ResponseWriter: w}
		next.ServeHTTP(answer, r)
		status := answer.Status()
		span.SetAttributes(attribute.Int(httpStatus, status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, http.StatusText(status))
		}
	})
}

// spanName names a span about a request. Anything that other machines choose freely is not part of
// the name.
func spanName(method, top string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete:
	default:
		method = "HTTP"
	}
	switch top {
	case "changes", "digests", "feeds", "snapshots":
		return method + " /" + top
	}
	return method
}
