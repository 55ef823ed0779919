package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/input"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/producer"
)

// Limits of a publish. Together with Config.MaxPublishes they bound memory: what
// is read ahead of a commit is limited across all publishes, and lines of NDJSON
// longer than input.LengthyLine are read and committed one at a time.
const (
	maxWhole     = 256 << 10 // bytes of a body held in memory; larger bodies are buffered in a file
	maxReadAhead = 8 << 20   // bytes, of all requests
)

// A Receipt is the response to a publish, as JSON.
type Receipt struct {
	// Published counts the entities written, and Duplicates those whose
	// Content-ID was already in the feed.
	Published  int `json:"published"`
	Duplicates int `json:"duplicates"`
	// Page is the URL of the page with the last entity written, and ContentID the Content-ID of this entity.
	// Both are empty if no entity was written.
	Page      string `json:"page,omitempty"`
	ContentID string `json:"contentId,omitempty"`
}

// publish answers POST /feeds/{feed}.
func (s *Server) publish(w *responder, r *http.Request) error {
	name := r.PathValue("feed")
	if err := layout.CheckName(name); err != nil {
		return problem.New(http.StatusBadRequest, "invalid-request", "%v", err)
	}
	if !s.begin() {
		return problem.New(http.StatusServiceUnavailable, "shutting-down", "the server is shutting down")
	}
	defer s.publishing.Done()
	select {
	case s.publishers <- struct{}{}:
		defer func() { <-s.publishers }()
	default:
		return problem.New(http.StatusServiceUnavailable, "busy", "%d requests are already publishing", s.config.MaxPublishes)
	}
	p := &publication{server: s}
	entities, err := s.entities(w, r, func() error { return p.acquireLengthy(r.Context()) })
	if err != nil {
		return err
	}
	f, release, err := s.producers.acquire(r.Context(), name)
	if err != nil {
		return err
	}
	defer release()
	writer := f.Writer(producer.WriterOptions{
		Memory: s.readAhead,
		Done: func(o producer.Outcome) error {
			label := s.metrics.feeds.Label(name)
			s.metrics.published.WithLabelValues(label).Add(float64(o.Receipt.Published))
			s.metrics.duplicates.WithLabelValues(label).Add(float64(o.Receipt.Duplicates))
			return nil
		},
	})
	err = cmp.Or(p.run(feed.ContextWithTrace(r.Context(), feed.TraceOfHeader(r.Header)), writer, entities), writer.Close())
	done := writer.Receipt()
	if err != nil {
		answer := *problemOf(err)
		answer.Members = map[string]any{"published": done.Published, "duplicates": done.Duplicates}
		return &answer
	}
	receipt := Receipt{Published: done.Published, Duplicates: done.Duplicates, ContentID: done.ContentID}
	if done.Page > 0 {
		receipt.Page = s.base(r) + layout.FeedPagePath(name, done.Page)
	}
	data, err := json.Marshal(receipt)
	if err != nil {
		return fmt.Errorf("encode receipt: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, err = w.Write(append(data, '\n'))
	return err
}

// entities returns the entities in the request's body. For lengthy see
// [input.Options].
func (s *Server) entities(w *responder, r *http.Request, lengthy func() error) (iter.Seq2[*feed.Entity, error], error) {
	contentType := r.Header.Get("Content-Type")
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil && contentType != "" && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return nil, problem.New(http.StatusBadRequest, "invalid-request", "Content-Type %q: %v", contentType, err)
	}
	batch := strings.HasPrefix(mediaType, "multipart/") || mediaType == "application/x-ndjson"
	if coding := r.Header.Get("Content-Encoding"); batch && coding != "" && !strings.EqualFold(coding, "identity") {
		w.Header().Set("Accept-Encoding", "identity")
		return nil, problem.New(http.StatusUnsupportedMediaType, "media-type", "send %s without Content-Encoding", mediaType)
	}
	if mediaType != "application/x-ndjson" && r.URL.RawQuery != "" {
		return nil, problem.New(http.StatusBadRequest, "invalid-request", "query parameters are for application/x-ndjson only")
	}
	limit := s.config.MaxBody
	if !batch {
		limit = min(limit, s.config.MaxEntity)
	}
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	body := http.MaxBytesReader(w.ResponseWriter, io.NopCloser(newBodyReader(r.Body, w)), limit)
	switch {
	case strings.HasPrefix(mediaType, "multipart/"):
		return input.Multipart(body, contentType, page.ReaderOptions{MaxPart: s.config.MaxEntity, MaxWhole: maxWhole}), nil
	case mediaType == "application/x-ndjson":
		options, err := lineOptions(r.URL.RawQuery)
		if err != nil {
			return nil, err
		}
		options.MaxLine = int(min(input.DefaultMaxLine, s.config.MaxEntity))
		options.Lengthy = lengthy
		return input.NDJSON(body, options), nil
	}
	return func(yield func(*feed.Entity, error) bool) {
		yield(input.Single(textproto.MIMEHeader(r.Header), body, r.ContentLength, maxWhole))
	}, nil
}

// lineOptions parses the query parameters that describe lines of NDJSON.
func lineOptions(query string) (o input.Options, err error) {
	invalid := func(format string, args ...any) (input.Options, error) {
		return o, problem.New(http.StatusBadRequest, "invalid-request", format, args...)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return invalid("parameters: %v", err)
	}
	for name, all := range values {
		if len(all) != 1 {
			return invalid("parameter %q occurs more than once", name)
		}
		switch value := all[0]; name {
		case "key":
			o.Key = value
		case "op":
			if o.Operation, err = feed.ParseOperation(value); err != nil {
				return invalid("parameter \"op\": %v", err)
			}
		case "op-field":
			o.OperationField = value
		case "content-type":
			o.ContentType = value
		case "content-id":
			o.ContentID = value
		default:
			return invalid("parameter %q is unknown: must be key, op, op-field, content-type or content-id", name)
		}
	}
	return o, nil
}

// A publication is the publishing of one request's entities.
type publication struct {
	server  *Server
	lengthy bool // holds server.lengthy
}

// acquireLengthy waits until no other request has a lengthy line in memory.
func (p *publication) acquireLengthy(ctx context.Context) error {
	if err := p.server.lengthy.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("wait to read a long line: %w", err)
	}
	p.lengthy = true
	return nil
}

// releaseLengthy lets another request read a lengthy line.
func (p *publication) releaseLengthy() {
	if p.lengthy {
		p.server.lengthy.Release(1)
		p.lengthy = false
	}
}

// run publishes the entities in batches. The batch in which an error occurs is not published, so a small
// request is published as a whole or not at all.
func (p *publication) run(ctx context.Context, w *producer.Writer, entities iter.Seq2[*feed.Entity, error]) error {
	defer p.releaseLengthy()
	for e, err := range entities {
		if err == nil {
			err = w.Add(ctx, e)
		}
		if err == nil && p.lengthy { // others wait for it
			err = w.Wait(ctx)
		}
		if err != nil {
			return err
		}
		p.releaseLengthy()
	}
	return w.Wait(ctx)
}
