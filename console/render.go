package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

//go:embed templates
var templates embed.FS

// A page holds what all pages show. The view of each page embeds it, and adds what only that page shows.
type page struct {
	Title string
	// Command is a command line that shows the same data; see the template "command".
	Command string
	Nav     []navEntry
	Here    string // Path of the current entry of Nav
	Now     time.Time
}

func (p *page) common() *page { return p }

// content is the view of a page.
type content interface{ common() *page }

// A navEntry is a link to one of the main pages.
type navEntry struct{ Path, Text string }

// A renderer renders one page, or one of its live parts.
type renderer struct{ template *template.Template }

// parse parses the templates of pages: each consists of the layout, the blocks that all pages share, and its own file.
func parse(names ...string) (map[string]*renderer, error) {
	pages := make(map[string]*renderer)
	for _, name := range names {
		t, err := template.New("layout.html").Funcs(functions()).ParseFS(templates, "templates/layout.html", "templates/blocks.html", "templates/tables.html", "templates/scan.html", "templates/"+name+".html")
		if err != nil {
			return nil, fmt.Errorf("parse template: %w", err)
		}
		pages[name] = &renderer{template: t}
	}
	return pages, nil
}

// functions returns the functions that templates can call.
func functions() template.FuncMap {
	return template.FuncMap{
		"asset":    assetURL,
		"count":    func(n any) string { return count(n) },
		"bytes":    human.Bytes,
		"plural":   plural,
		"text":     text,
		"lines":    lines,
		"short":    func(t string) string { return text(brief(t)) },
		"stamp":    func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") },
		"at":       func(t, now time.Time) moment { return moment{Time: t, Now: now} },
		"shape":    shape,
		"tone":     tone,
		"utc":      func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") },
		"seconds":  func(t time.Time) string { return t.UTC().Format(time.DateTime) },
		"duration": human.Duration,
		"pageURL":  pageURL,
	}
}

// count returns an integer with separators between thousands.
func count(n any) string {
	switch n := n.(type) {
	case int:
		return human.Count(int64(n))
	case int64:
		return human.Count(n)
	case *int64:
		return human.Count(*n)
	}
	return fmt.Sprint(n)
}

// plural returns a number and a noun.
func plural(n any, one, many string) string {
	if text := count(n); text != "1" {
		return text + " " + many
	}
	return "1 " + one
}

// text returns t, which may come from anyone, made safe for one line; an empty string becomes a dash.
func text(t string) string {
	if t == "" {
		return "–"
	}
	return human.Printable(t)
}

// lines returns a text of several lines, with each line made safe.
func lines(t string) string {
	all := strings.Split(t, "\n")
	for n, line := range all {
		if line != "" {
			all[n] = human.Printable(line)
		}
	}
	return strings.Join(all, "\n")
}

// A moment is a time to show and the time at which the page is made, for the template "time".
type moment struct{ Time, Now time.Time }

// Ago returns the time in words: "12s ago".
func (m moment) Ago() string {
	if d := m.Now.Sub(m.Time); d >= 0 {
		return rough(d) + " ago"
	}
	return "in " + rough(m.Time.Sub(m.Now))
}

// rough returns a duration in its largest unit; pages show the exact time as a tooltip.
func rough(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// errNoPage means that there is no page at a path.
var errNoPage = problem.New(http.StatusNotFound, "no-page", "There is no page at this address.")

// errorView is the view of an error.
type errorView struct {
	page
	Status int
	Detail string
}

// show returns the handler of requests for a page. With "part=NAME" in the query, only that part of the page is sent:
// the template "live-NAME".
func (c *Console) show(route route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r, err := c.mayShow(w.Header(), r, &route)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), requestTime)
		defer cancel()
		r = r.WithContext(ctx)
		view, err := route.get(r)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		name := "layout.html"
		if part := r.URL.Query().Get("part"); part != "" {
			name = "live-" + part
		}
		view.common().Here = "." + route.path
		c.render(w, r, http.StatusOK, c.pages[route.page], name, view)
	}
}

// act returns the handler of requests for an action.
func (c *Console) act(route route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r, err := c.mayAct(w.Header(), r, &route)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(formTime)) // not supported by all servers
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		see, err := route.post(r)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		w.Header().Set("Location", see) // relative; http.Redirect would make it absolute
		w.WriteHeader(http.StatusSeeOther)
	}
}

// Limits of clients.
const (
	maxForm  = 64 << 10         // bytes of a form
	formTime = 10 * time.Second // to send a form
	sendTime = 30 * time.Second // to receive a page
)

// fail answers a request with an error.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := explain(err)
	if p.Status >= http.StatusInternalServerError && r.Context().Err() == nil {
		c.log.ErrorContext(r.Context(), "console request failed", "path", r.URL.Path, "error", err)
	}
	view := &errorView{page: page{Title: p.Title}, Status: p.Status, Detail: p.Detail}
	c.render(w, r, p.Status, c.pages["error"], "layout.html", view)
}

// explain returns the problem that describes an error to a person.
func explain(err error) *problem.Error {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		if p.Named("host") {
			return problem.New(p.Status, "host", "The console has no credentials, so it answers only requests for this machine: use localhost, or start it with read credentials.")
		}
		if p.Named("unauthorized") {
			return problem.New(p.Status, "unauthorized", "This console needs credentials. Reload the page to enter them.")
		}
		return p
	}
	switch {
	case errors.Is(err, chain.ErrNoFeed):
		return problem.New(http.StatusNotFound, "no-feed", "There is no such feed in the store.")
	case errors.Is(err, layout.ErrName):
		return problem.New(http.StatusBadRequest, "name", "%v", err)
	case errors.Is(err, chain.ErrPruned):
		return problem.New(http.StatusGone, "pruned", "The page was pruned.")
	case errors.Is(err, chain.ErrNoPage):
		return problem.New(http.StatusNotFound, "no-page", "The feed has no such page.")
	case errors.Is(err, feedstore.ErrNoSnapshot):
		return problem.New(http.StatusNotFound, "no-snapshot", "There is no such snapshot in the store.")
	case errors.Is(err, chain.ErrCorrupt):
		return problem.New(http.StatusInternalServerError, "corrupt", "%v", err)
	case errors.Is(err, storage.ErrNoStore):
		return problem.New(http.StatusServiceUnavailable, "store-away", "The store does not exist. Is its disk mounted?")
	case errors.Is(err, storage.ErrUnavailable):
		return problem.New(http.StatusServiceUnavailable, "store-away", "The store does not respond.")
	case errors.Is(err, context.DeadlineExceeded):
		return problem.New(http.StatusServiceUnavailable, "slow", "The store did not answer within %v.", requestTime)
	}
	return problem.New(http.StatusInternalServerError, "failed", "The console could not read the store; its log has the reason.")
}

// render sends a template.
func (c *Console) render(w http.ResponseWriter, r *http.Request, status int, p *renderer, name string, view content) {
	common := view.common()
	common.Nav, common.Now = c.nav, c.config.Now()
	if p.template.Lookup(name) == nil {
		c.fail(w, r, errNoPage)
		return
	}
	var body bytes.Buffer
	if err := p.template.ExecuteTemplate(&body, name, view); err != nil {
		c.log.ErrorContext(r.Context(), "render page", "path", r.URL.Path, "error", err)
		http.Error(w, "the page could not be rendered", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sendTime)) // not supported by all servers
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body.Bytes()) // an error means that the client has disconnected
	}
}
