// Package console serves web pages about the feeds of a store, for use in a browser: what there is, how
// fresh it is, and who reads it. The pages work without script, and send nothing to other sites.
package console

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/access"
	"github.com/feedctl/feedctl/storage"
)

// Config says what a console shows. If a field for a part of the console is nil, the console has no pages for that
// part.
type Config struct {
	// Store is a store, and Feeds reads its feeds; nil: no feeds. The caller closes both.
	Store storage.Store
	Feeds *feedstore.Reader
	// StoreName names the store in command lines, without secrets.
	StoreName string
	// FeedsURL is the URL at which consumers reach a server of the feeds. It may be empty.
	FeedsURL string
	// Requests counts the requests to the store, and Space returns how much space the store has. If either is nil, the
	// console does not show it.
	Requests *Requests
	Space    func() *Space
	// Readers are the readers of the feeds. nil means that they are not known.
	Readers Readers
	// Jobs are the jobs of a scheduler. nil means that there are no jobs.
	Jobs Jobs
	// JobsName names the database of jobs in command lines, without secrets.
	JobsName string
	// Actions and JobActions are what people may do to feeds and jobs, besides changing the state of jobs.
	// nil means nothing.
	Actions    Actions
	JobActions JobActions

	// ReadAuth and WriteAuth are the credentials of people who may see the console, and of those who may
	// also act in it. Without any credentials, everyone may see the console, and no one may act in it.
	ReadAuth, WriteAuth []Credential

	// Logger logs errors. nil means no logging.
	Logger *slog.Logger
	// Now is the clock. nil means [time.Now].
	Now func() time.Time
}

// requestTime is how long a request may take.
const requestTime = 20 * time.Second

// A Console is the HTTP handler of a console. Make one with [New]. All its links are relative, so it may
// be mounted at any path that ends with a slash, behind [http.StripPrefix] or a proxy.
type Console struct {
	config Config
	log    *slog.Logger
	access *access.Control
	pages  map[string]*renderer
	paths  []string
	nav    []navEntry
	runs   *runs
	rates  *rates
	hub    *hub
	// summaries is nil without feeds.
	summaries *summaries
	handler   http.Handler
}

// New returns a console.
func New(c Config) (*Console, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	control, err := newAccess(c)
	if err != nil {
		return nil, fmt.Errorf("configure console: %w", err)
	}
	console := &Console{config: c, log: c.Logger, access: control, runs: newRuns(c.Now), rates: newRates(), hub: newHub(c.Feeds)}
	if c.Feeds != nil {
		console.summaries = newSummaries(c)
	}
	if err := console.mount(console.routes()); err != nil {
		return nil, fmt.Errorf("configure console: %w", err)
	}
	return console, nil
}

// ServeHTTP implements [http.Handler].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Paths returns the paths of the pages, in the order of the navigation and without queries.
func (c *Console) Paths() []string { return slices.Clone(c.paths) }

// Close ends the actions in progress, as Ctrl-C ends commands, and waits for them until ctx ends.
func (c *Console) Close(ctx context.Context) error {
	c.hub.close()
	err := c.runs.close(ctx)
	if c.summaries != nil {
		c.summaries.close()
	}
	return err
}

// A route is a page or an action of the console. Paths have one element, so that links can be relative.
type route struct {
	path string
	// nav is the entry in the navigation; "" for pages that are reached only by links on other pages.
	nav string
	// page names the template of a page, in templates/PAGE.html, and get returns what it shows.
	page string
	get  func(*http.Request) (content, error)
	// raw answers a request for something that is not a page.
	raw func(http.ResponseWriter, *http.Request) error
	// post carries out an action and returns the relative URL to show next. It requires write credentials. So does the
	// get of the same route, which answers with the page on which a person confirms the action.
	post func(*http.Request) (see string, err error)
	// forJobs means that credentials that are limited to namespaces of jobs may use the route, too; see [jobs.Within].
	forJobs bool
}

// routes returns the routes of the console, in the order of the navigation.
func (c *Console) routes() []route {
	var routes []route
	if c.config.Feeds != nil {
		routes = append(routes,
			route{path: "/", nav: "Overview", page: "overview", get: c.getOverview},
			route{path: "/feeds", nav: "Feeds", page: "feeds", get: c.getFeeds},
			route{path: "/feed", page: "feed", get: c.getFeed},
			route{path: "/pages", page: "pages", get: c.getPages},
			route{path: "/page", page: "page", get: c.getPage},
			route{path: "/snapshots", nav: "Snapshots", page: "snapshots", get: c.getSnapshots},
		)
		routes = append(routes, c.entityRoutes()...)
	}
	if c.config.Readers != nil {
		routes = append(routes,
			route{path: "/readers", nav: "Readers", page: "readers", get: c.getReaders},
			route{path: "/reader", page: "reader", get: c.getReader},
		)
	}
	if c.config.Feeds != nil {
		routes = append(routes, route{path: "/map", nav: "Map", page: "map", get: c.getMap})
	}
	if c.config.Jobs != nil {
		routes = append(routes, c.jobRoutes()...)
	}
	routes = append(routes, route{path: "/checks", nav: "Checks", page: "checks", get: c.getChecks, forJobs: true})
	return append(routes, c.actionRoutes()...)
}

// mount makes the handler of the given routes.
func (c *Console) mount(routes []route) error {
	mux := chi.NewRouter()
	mux.Get("/assets/{name}", c.getAsset)
	mux.Get("/events", func(w http.ResponseWriter, r *http.Request) { c.hub.answer(c, w, r) })
	pages, err := parse("error")
	if err != nil {
		return err
	}
	c.pages = pages
	for _, r := range routes {
		if r.post != nil {
			mux.Post(r.path, c.act(r))
		}
		if r.raw != nil {
			mux.Get(r.path, c.answer(r))
			mux.Head(r.path, c.answer(r))
		}
		if r.get == nil {
			continue
		}
		c.paths = append(c.paths, r.path)
		if r.nav != "" {
			c.nav = append(c.nav, navEntry{Path: "." + r.path, Text: r.nav})
		}
		more, err := parse(r.page)
		if err != nil {
			return err
		}
		c.pages[r.page] = more[r.page]
		mux.Get(r.path, c.show(r))
		mux.Head(r.path, c.show(r))
	}
	mux.NotFound(c.show(route{get: func(*http.Request) (content, error) { return nil, errNoPage }}))
	c.handler = c.secured(mux)
	return nil
}
