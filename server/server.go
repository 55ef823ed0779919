package server

import (
	"context"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"golang.org/x/sync/semaphore"

	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/access"
	"github.com/feedctl/feedctl/internal/lru"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/readiness"
	"github.com/feedctl/feedctl/internal/represent"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/observe"
)

// A Server is the HTTP handler of a store. Make one with [New].
type Server struct {
	store     storage.Store
	config    Config
	publicURL string
	log       *slog.Logger
	metrics   *metrics
	ready     *readiness.Checks
	router    http.Handler
	routing   sync.Pool // of *chi.Context

	access    *access.Control
	sender    *represent.Sender
	linked    *lru.Cache[linkedKey, *represent.Representation]
	directory *template.Template

	reader   *feedstore.Reader
	indexes  *lru.Cache[string, *servedIndex]
	indexing chan struct{} // held while an index is being prepared
	tiles    *lru.Cache[tileKey, *tile]
	tiling   chan struct{} // holds a value for each tile that is being made

	producers  *producers
	publishers chan struct{}       // limits requests to Config.MaxPublishes
	readAhead  *semaphore.Weighted // bytes
	lengthy    *semaphore.Weighted // of weight 1: held while a lengthy line is in memory

	mu         sync.Mutex
	closing    chan struct{}
	publishing sync.WaitGroup
}

// New returns a server of the feeds and snapshots in a store. [Server.Close] does
// not close the store.
func New(store storage.Store, c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	publicURL, err := c.publicURL()
	if err != nil {
		return nil, err
	}
	control, err := newAccess(c, publicURL)
	if err != nil {
		return nil, err
	}
	c = c.withDefaults(store)
	operations := newStoreMetrics()
	store = observe.Wrap(store, operations.observe)
	s := &Server{
		store: store, config: c, publicURL: publicURL, log: c.Logger,
		access:     control,
		sender:     represent.NewSender(represent.Config{MaxCoded: c.MaxCoded, MaxEncoded: max(c.MaxEncoded, 0), Private: !control.OpenReads()}),
		linked:     lru.New[linkedKey, *represent.Representation](maxLinked),
		indexes:    lru.New[string, *servedIndex](maxIndexes),
		indexing:   make(chan struct{}, 1),
		tiles:      lru.New[tileKey, *tile](maxTiles),
		tiling:     make(chan struct{}, maxTiling),
		publishers: make(chan struct{}, c.MaxPublishes),
		readAhead:  semaphore.NewWeighted(maxReadAhead),
		lengthy:    semaphore.NewWeighted(1),
		closing:    make(chan struct{}),
	}
	s.ready = s.checks(operations)
	if s.metrics, err = newMetrics(s, operations); err != nil {
		return nil, fmt.Errorf("configure server: register metrics: %w", err)
	}
	s.reader = feedstore.New(store, feedstore.Config{
		ReadAhead: max(c.ReadAhead, 0), Cache: c.Cache, MaxWaiters: c.MaxWaiters, PollInterval: c.PollInterval, Network: true, Logger: c.Logger,
		Waiting: func(n int) { s.metrics.waiters.Set(float64(n)) },
	})
	c.Producer.Committed = s.reader.Committed
	s.producers = newProducers(store, c.Producer, c.MaxProducers)
	if s.directory, err = template.New("directory").Parse(directoryTemplate); err != nil {
		return nil, fmt.Errorf("configure server: %w", err)
	}
	s.router = s.routes()
	s.routing.New = func() any { return chi.NewRouteContext() }
	return s, nil
}

// Close shuts the server down: it answers waiting requests, refuses to publish, stops fetching ahead, waits
// for publishes that have begun, at most until ctx ends, and closes the producers. Requests that are being
// answered may continue until the store is closed. Call Close before [http.Server.Shutdown], or concurrently
// with it.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	select {
	case <-s.closing:
	default:
		close(s.closing)
	}
	s.mu.Unlock()
	s.reader.Close(ctx)
	if !s.config.Writable {
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.publishing.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("close server: wait for publishes: %w", context.Cause(ctx))
	}
	if err := s.producers.close(); err != nil {
		return fmt.Errorf("close server: %w", err)
	}
	return nil
}

// begin counts a publish, unless the server is closing.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closing:
		return false
	default:
		s.publishing.Add(1)
		return true
	}
}

// A handler answers a request, or returns an error to send as a problem.
type handler func(w *responder, r *http.Request) error

func (s *Server) routes() http.Handler {
	reading := func(h handler) handler { return allowed(s.access.Read, h) }
	writing := func(h handler) handler { return allowed(s.access.Write, h) }
	feed := map[string]handler{http.MethodGet: reading(s.getNewest)}
	if s.config.Writable {
		feed[http.MethodPost] = writing(s.publish)
	}
	get := func(h handler) map[string]handler { return map[string]handler{http.MethodGet: h} }
	mux := chi.NewRouter()
	handle := func(pattern string, methods map[string]handler) {
		mux.Handle(pattern, s.endpoint(pattern, methods))
	}
	if s.config.Operations {
		handle("/healthz", get(s.getHealth))
		handle("/readyz", get(s.getReadiness))
		handle("/metrics", get(reading(s.metrics.serve)))
	}
	handle("/", get(reading(s.getDirectory)))
	handle("/changes", get(reading(s.getChanges)))
	handle(layout.FeedPath("{feed}"), feed)
	handle(layout.FeedPath("{feed}")+"/pages/{n}", get(reading(s.getPage)))
	handle(layout.FeedPath("{feed}")+"/index/{n}", get(reading(s.getTile)))
	handle(layout.FeedTimegatePath("{feed}"), get(reading(s.getAt)))
	handle(layout.SnapshotPath("{name}"), get(reading(s.getNewestIndex)))
	handle(layout.SnapshotIndexPath("{name}", "{id}"), get(reading(s.getIndex)))
	handle(layout.SnapshotIndexPath("{name}", "{id}")+"/pages/{n}", get(reading(s.getSnapshotPage)))
	handle(layout.DigestPath("{feed}"), get(reading(s.getNewestDigest)))
	handle(layout.DigestRootPath("{feed}", "{id}"), get(reading(s.getDigest)))
	handle(layout.DigestNodePath("{feed}", "{hash}"), get(reading(s.getDigestNode)))
	mux.NotFound(s.endpoint("other", get(func(*responder, *http.Request) error {
		return problem.New(http.StatusNotFound, "no-resource", "there is nothing at this path")
	})).ServeHTTP)
	mux.MethodNotAllowed(s.endpoint("other", nil).ServeHTTP) // for methods that chi does not know
	return mux
}

// allowed returns a handler that answers only the requests that a check allows.
func allowed(check func(http.Header, *http.Request) error, h handler) handler {
	return func(w *responder, r *http.Request) error {
		if err := check(w.Header(), r); err != nil {
			return err
		}
		return h(w, r)
	}
}

// pageNumber parses a page number in its canonical form.
func pageNumber(s string) (n int64, ok bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == s
}

// getHealth answers /healthz.
func (s *Server) getHealth(w *responder, _ *http.Request) error { return writeText(w, "ok\n") }

// storeTimeout is how long a request waits for metadata from the store. A driver may retry for longer: its
// result is then used for later requests.
const storeTimeout = 5 * time.Second

func writeText(w *responder, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, err := w.Write([]byte(text))
	return err
}
