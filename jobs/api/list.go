package api

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/suggest"
	"github.com/feedctl/feedctl/jobs"
)

// parameters holds the query parameters of a request, and the error found in those that have been read.
type parameters struct {
	values url.Values
	err    error
}

func query(r *http.Request) *parameters {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		err = problem.New(http.StatusBadRequest, "invalid-request", "the query: %v", err)
	}
	return &parameters{values: values, err: err}
}

func (p *parameters) invalid(format string, args ...any) {
	if p.err == nil {
		p.err = problem.New(http.StatusBadRequest, "invalid-request", format, args...)
	}
}

// text returns a parameter that may be given only once.
func (p *parameters) text(name string) string {
	all := p.values[name]
	if len(all) > 1 {
		p.invalid("parameter %q is given %d times", name, len(all))
	}
	return p.values.Get(name)
}

// yes reports whether a parameter is "true".
func (p *parameters) yes(name string) bool {
	switch text := p.text(name); text {
	case "true":
		return true
	case "", "false":
	default:
		p.invalid("parameter %q is %.100q: want true or false", name, text)
	}
	return false
}

// number returns a parameter that is a number, 0 or more. If the parameter is not given, number returns the given
// default.
func (p *parameters) number(name string, otherwise int) int {
	text := p.text(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		p.invalid("parameter %q is %.100q: want a number, 0 or more", name, text)
		return otherwise
	}
	return n
}

// list returns the values of a parameter, which may be separated by commas, or given several times.
func (p *parameters) list(name string) (all []string) {
	for _, values := range p.values[name] {
		for value := range strings.SplitSeq(values, ",") {
			if value != "" {
				all = append(all, value)
			}
		}
	}
	return all
}

// A call of only(known) checks that there are no other parameters, and that all are valid text. It returns the error
// found in the parameters.
func (p *parameters) only(known []string) error {
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		if !slices.Contains(known, name) {
			p.invalid("unknown parameter %.100q%s", name, suggest.DidYouMean(name, known, ""))
		} else if !isText(strings.Join(p.values[name], "")) {
			p.invalid("parameter %q is not UTF-8, or contains a NUL character", name)
		}
	}
	return p.err
}

// filter reads the parameters that select jobs.
func (p *parameters) filter(r *http.Request) jobs.Filter {
	f := jobs.Filter{Namespace: p.text("namespace"), Kind: p.text("kind"), Origin: p.text("origin"), Name: p.text("name")}
	if p.err == nil && f.Namespace != "" {
		p.err = mayUse(r, f.Namespace)
	}
	for _, state := range p.list("state") {
		if !slices.Contains(jobs.States(), jobs.State(state)) {
			p.invalid("unknown state %.100q: want one or more of %v", state, jobs.States())
		}
		f.States = append(f.States, jobs.State(state))
	}
	for _, label := range p.list("label") {
		name, value, ok := strings.Cut(label, "=")
		if !ok {
			p.invalid("label %.100q: want NAME=VALUE", label)
		}
		if f.Labels == nil {
			f.Labels = map[string]string{}
		}
		if other, ok := f.Labels[name]; ok && other != value {
			p.invalid("label %.100q has two values: no job can have both", name)
		}
		f.Labels[name] = value
	}
	if len(f.Labels) > jobs.MaxLabels {
		p.invalid("there are %d labels: want at most %d", len(f.Labels), jobs.MaxLabels)
	}
	return f
}

// A list is a page of jobs.
type list struct {
	Jobs   []jobs.Listed      `json:"jobs"`
	Next   string             `json:"next,omitempty"` // the cursor of the next page
	Totals map[jobs.State]int `json:"totals"`         // on all pages
}

func (a *API) listJobs(w http.ResponseWriter, r *http.Request) error {
	p := query(r)
	f := p.filter(r)
	f.After, f.Limit = p.text("cursor"), p.number("limit", jobs.DefaultLimit)
	if f.After != "" && !strings.Contains(f.After, "/") {
		p.invalid("invalid cursor %.100q: want \"next\" from the previous page", f.After)
	}
	if p.err != nil {
		return p.err
	}
	page, err := a.jobs.List(r.Context(), f)
	if err != nil {
		return err
	}
	l := list{Jobs: page.Jobs, Next: page.Next}
	if l.Jobs == nil {
		l.Jobs = []jobs.Listed{}
	}
	if l.Totals, err = a.jobs.Totals(r.Context(), f); err != nil {
		return err
	}
	return answer(w, http.StatusOK, l)
}
