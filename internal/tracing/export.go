package tracing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A client sends spans with OTLP over HTTP, in protobuf. The SDK's own client needs gRPC to do the same,
// which would make the binary larger by a fifth.
//
// The client sends spans only once: if the collector does not accept them, they are dropped. The first failure is logged.
type client struct {
	url    string
	header http.Header
	http   *http.Client
	log    *slog.Logger
	failed atomic.Bool // a failure has been logged
}

var _ otlptrace.Client = (*client)(nil)

// newClient returns a client with a transport of its own: its requests are neither traced nor counted. It
// follows no redirects, so that the header, which may have a secret, goes only to the collector.
func newClient(url string, header http.Header, log *slog.Logger) *client {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	to := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}, CheckRedirect: stay}
	return &client{url: url, header: header, http: to, log: log}
}

func (c *client) Start(context.Context) error { return nil }

func (c *client) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans. It never returns an error, since the SDK would print it.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	if err := c.send(ctx, spans); err != nil && !c.failed.Swap(true) {
		c.log.WarnContext(ctx, "the collector does not accept traces; they are dropped until it does", "error", err)
	}
	return nil
}

func (c *client) send(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// The encoding is the same as that of ExportTraceServiceRequest, whose package needs gRPC.
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("send spans: %w", err)
	}
	request.Header = c.header.Clone()
	request.Header.Set("Content-Type", "application/x-protobuf")
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("send spans: %w", err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10) // so that the connection can be used again
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("send spans to %s: HTTP status %s", c.url, response.Status)
	}
	return nil
}

// parseHeaders parses "name=value,name=value", with values percent-encoded.
func parseHeaders(list string) (http.Header, error) {
	header := http.Header{}
	if strings.TrimSpace(list) == "" {
		return header, nil
	}
	for n, field := range strings.Split(list, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(field), "=")
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return nil, fmt.Errorf("field %d is not NAME=VALUE with VALUE percent-encoded", n+1) // the field may be a secret, so the error does not quote it
		}
		header.Add(name, plain)
	}
	return header, nil
}
