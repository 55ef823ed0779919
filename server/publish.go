package server

import (
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
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/producer"
)

// Limits of a publish. Together with Config.MaxPublishes they bound memory: what
// is read ahead of a commit is limited across all publishes, and lines of NDJSON
// longer than input.LengthyLine are read and committed one at a time.
const (
	maxWhole         = 256 << 10 // bytes of a body held in memory; larger bodies are buffered in a file
	maxBatchBytes    = 1 << 20   // of one request, before it waits for a commit
	maxBatchEntities = 1000
	maxReadAhead     = 8 << 20 // bytes, of all requests
	entityWeight     = 512     // bytes of memory of an entity besides its body
)

// A Receipt is the answer to a publish, as JSON.
type Receipt struct {
	// Published counts the entities written, and Duplicates those whose
	// Content-ID was already in the feed.
	Published  int `json:"published"`
	Duplicates int `json:"duplicates"`
	// Page is the URL of the page with the last entity written, and ContentID is
	// that of the entity. Both are empty if none was written.
	Page      string `json:"page,omitempty"`
	ContentID string `json:"contentId,omitempty"`
}

// publish answers POST /feeds/{feed}.
func (s *Server) publish(w *responder, r *http.Request) error {
	name := pathValue(r, "feed")
	if err := layout.CheckName(name); err != nil {
		return newProblem(http.StatusBadRequest, "invalid-request", "%v", err)
	}
	if !s.begin() {
		return newProblem(http.StatusServiceUnavailable, "shutting-down", "the server is shutting down")
	}
	defer s.publishing.Done()
	select {
	case s.publishers <- struct{}{}:
		defer func() { <-s.publishers }()
	default:
		return newProblem(http.StatusServiceUnavailable, "busy", "%d requests are already publishing", s.config.MaxPublishes)
	}
	p := &publication{server: s, name: name}
	entities, err := s.entities(w, r, func() error { return p.acquireLengthy(r.Context()) })
	if err != nil {
		return err
	}
	f, release, err := s.producers.acquire(r.Context(), name)
	if err != nil {
		return err
	}
	defer release()
	p.feed = f
	err = p.run(r.Context(), entities)
	if p.receipt.Page > 0 {
		s.reader.Notify(name)
	}
	if err != nil {
		answer := *problemOf(err)
		answer.Published, answer.Duplicates = &p.receipt.Published, &p.receipt.Duplicates
		return &answer
	}
	receipt := Receipt{Published: p.receipt.Published, Duplicates: p.receipt.Duplicates, ContentID: p.receipt.ContentID}
	if p.receipt.Page > 0 {
		receipt.Page = s.base(r) + layout.FeedPagePath(name, p.receipt.Page)
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
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return nil, newProblem(http.StatusBadRequest, "invalid-request", "Content-Type %q: %v", contentType, err)
	}
	batch := strings.HasPrefix(mediaType, "multipart/") || mediaType == "application/x-ndjson"
	if coding := r.Header.Get("Content-Encoding"); batch && coding != "" && !strings.EqualFold(coding, "identity") {
		w.Header().Set("Accept-Encoding", "identity")
		return nil, newProblem(http.StatusUnsupportedMediaType, "media-type", "send %s without Content-Encoding", mediaType)
	}
	if mediaType != "application/x-ndjson" && r.URL.RawQuery != "" {
		return nil, newProblem(http.StatusBadRequest, "invalid-request", "query parameters are for application/x-ndjson only")
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
		return o, newProblem(http.StatusBadRequest, "invalid-request", format, args...)
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
	feed    *producer.Feed
	name    string
	receipt producer.Receipt // of all batches so far

	batch   []*feed.Entity
	bytes   int64 // reserved for the batch
	lengthy bool  // holds server.lengthy
}

// acquireLengthy waits until no other request has a lengthy line in memory.
func (p *publication) acquireLengthy(ctx context.Context) error {
	if err := p.server.lengthy.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("wait to read a long line: %w", err)
	}
	p.lengthy = true
	return nil
}

// run publishes the entities in batches. The memory of a batch is reserved. If there
// is none left for an entity, the batch is published at once, so that requests never
// wait for one another's memory. After an error the batch is not published: a small
// request is published as a whole or not at all.
func (p *publication) run(ctx context.Context, entities iter.Seq2[*feed.Entity, error]) error {
	defer p.release()
	for e, err := range entities {
		if err != nil {
			return err
		}
		weight := int64(len(e.Body)) + entityWeight
		reserved := p.server.readAhead.TryAcquire(weight)
		if reserved {
			p.bytes += weight
		}
		p.batch = append(p.batch, e)
		// A stream must be read before the next entity; others wait for server.lengthy.
		if !reserved || p.lengthy || e.Stream != nil || p.bytes >= maxBatchBytes || len(p.batch) >= maxBatchEntities {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
	}
	return p.flush(ctx)
}

// flush publishes the batch.
func (p *publication) flush(ctx context.Context) error {
	if len(p.batch) == 0 {
		return nil
	}
	receipt, err := p.feed.Publish(ctx, p.batch...)
	p.release()
	if err != nil {
		return err
	}
	p.receipt.Published += receipt.Published
	p.receipt.Duplicates += receipt.Duplicates
	if receipt.Page > 0 {
		p.receipt.Page, p.receipt.ContentID = receipt.Page, receipt.ContentID
	}
	p.server.metrics.published.WithLabelValues(p.name).Add(float64(receipt.Published))
	p.server.metrics.duplicates.WithLabelValues(p.name).Add(float64(receipt.Duplicates))
	return nil
}

// release drops the batch and releases its memory.
func (p *publication) release() {
	p.server.readAhead.Release(p.bytes)
	clear(p.batch)
	p.batch, p.bytes = p.batch[:0], 0
	if p.lengthy {
		p.server.lengthy.Release(1)
		p.lengthy = false
	}
}
