package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-chi/chi/v5"

	"github.com/feedctl/feedctl/internal/access"
	"github.com/feedctl/feedctl/internal/jobsready"
	"github.com/feedctl/feedctl/internal/readiness"
	"github.com/feedctl/feedctl/jobs"
)

// Config holds the settings of an [API]. The zero value of each is its default.
type Config struct {
	// ReadAuth and WriteAuth are the credentials that allow reading and changing jobs; with an
	// empty list no credentials are required. The lists are separate: a credential that allows both
	// is in both lists, and may be valid for more namespaces in one list than in the other.
	ReadAuth, WriteAuth []Credential
	// PublicURL is the URL of the root as clients see it. It is only needed behind a proxy that
	// changes the Host.
	PublicURL string
	// Runs serves pages about runs below /runs/ to those who may read all namespaces; see
	// [jobs.Scheduler.Pages]. If it is nil, there are no such pages.
	Runs http.Handler
	// Logger logs errors. Defaults to discarding them.
	Logger *slog.Logger
}

// ErrExposed is matched by the error of [CheckExposure].
var ErrExposed = errors.New("jobs would be open to everyone")

// CheckExposure checks whether an API with this configuration may listen on the TCP address
// ("host:port", as for [net.Listen]). The error matches [ErrExposed] if other machines could read
// or change jobs without credentials. CheckExposure does not resolve names: the only name that stands
// for this machine is "localhost".
func CheckExposure(addr string, c Config) error {
	if len(c.ReadAuth) > 0 && len(c.WriteAuth) > 0 {
		return nil
	}
	if local, err := access.OnlyLocal(addr); err != nil || local {
		return err
	}
	return fmt.Errorf("listen on %q: %w on the network: give read and write credentials, or listen on a loopback address", addr, ErrExposed)
}

// CheckMetrics is like [CheckExposure], for an address that serves metrics through [Guard]. Metrics
// contain the names of namespaces, servers and jobs.
func CheckMetrics(addr string, c Config) error {
	if len(c.ReadAuth) > 0 {
		return nil
	}
	if local, err := access.OnlyLocal(addr); err != nil || local {
		return err
	}
	return fmt.Errorf("serve metrics at %q: %w on the network: give read credentials, listen on a loopback address, or confirm that this is intended", addr, ErrExposed)
}

// Guard returns a handler that passes GET requests to h if the client may read all namespaces.
func Guard(h http.Handler, c Config) (http.Handler, error) {
	a, err := New(nil, c)
	if err != nil {
		return nil, err
	}
	return a.endpoint(methods{http.MethodGet: a.reads(forAll, func(w http.ResponseWriter, r *http.Request) error {
		h.ServeHTTP(w, r)
		return nil
	})}), nil
}

// An API is an [http.Handler] over a scheduler.
type API struct {
	jobs             *jobs.Scheduler
	ready            *readiness.Checks
	readers, writers *rights
	log              *slog.Logger
	router           chi.Router

	followers atomic.Int64 // requests that follow a log

	once    sync.Once
	closing chan struct{}
}

// New returns the API of a scheduler.
func New(s *jobs.Scheduler, c Config) (*API, error) {
	readers, writers, err := controlled(c)
	if err != nil {
		return nil, fmt.Errorf("configure the API of jobs: %w", err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	a := &API{jobs: s, ready: readiness.New(jobsready.Check(s)), readers: readers, writers: writers, log: c.Logger, closing: make(chan struct{})}
	a.router = a.routes(c.Runs)
	return a, nil
}

// Close ends requests that wait for something to happen. Call it before
// [http.Server.Shutdown], or concurrently with it.
func (a *API) Close(context.Context) error {
	a.once.Do(func() { close(a.closing) })
	return nil
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/_scheduler/") && r.URL.RawPath != "" { // "/" may be escaped, as in CouchDB
		r = r.Clone(r.Context())
		r.URL.RawPath = ""
	}
	a.router.ServeHTTP(w, r)
}

func (a *API) routes(runs http.Handler) chi.Router {
	mux := chi.NewRouter()
	if runs != nil {
		mux.Handle("/runs/*", a.endpoint(methods{"GET": a.reads(forAll, func(w http.ResponseWriter, r *http.Request) error {
			runs.ServeHTTP(w, r)
			return nil
		})}))
	}
	for _, r := range a.table() {
		handlers := methods{}
		for method, o := range r.operations {
			handlers[method] = wellFormed(o.query, o.handle)
		}
		mux.Handle(r.pattern, a.endpoint(handlers))
	}
	mux.NotFound(a.endpoint(methods{"GET": a.nothing}).ServeHTTP)
	mux.MethodNotAllowed(a.endpoint(nil).ServeHTTP) // handles methods that chi does not know
	return mux
}
