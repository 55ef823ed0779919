// Package readiness reports, to supervisors and to people, whether a process can do its work and, if
// not, what is wrong and since when.
package readiness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/problem"
)

// A State is the state of something that a process needs.
type State string

const (
	OK       State = "ok"
	Degraded State = "degraded" // it fails, but the process works without it
	Failed   State = "failed"   // the process cannot do its work
)

// A Status is the state of one thing, as found by a check.
type Status struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	Error string `json:"error,omitempty"`
	// Since is when the state began, as far as the process has noticed.
	Since time.Time `json:"since"`

	err error
}

// Of returns the status of something whose check returned err: OK if err is nil, and otherwise the
// given state. For a [problem.Error], the status shows the detail and not the cause, which may
// disclose too much.
func Of(name string, err error, otherwise State) Status {
	s := Status{Name: name, State: OK, err: err}
	var p *problem.Error
	switch {
	case errors.As(err, &p):
		s.State, s.Error = otherwise, p.Detail
	case err != nil:
		s.State, s.Error = otherwise, err.Error()
	}
	return s
}

// A Check checks things that a process needs. In a status without Since, [Checks] sets the time at
// which it first saw the state.
type Check func(context.Context) []Status

// Essential returns a check of something without which the process cannot do its work.
func Essential(name string, test func(context.Context) error) Check {
	return func(ctx context.Context) []Status { return []Status{Of(name, test(ctx), Failed)} }
}

// Optional returns a check of something without which the process works, but not as well.
func Optional(name string, test func(context.Context) error) Check {
	return func(ctx context.Context) []Status { return []Status{Of(name, test(ctx), Degraded)} }
}

// Checks holds all checks of a process. It is safe for concurrent use.
type Checks struct {
	checks []Check

	mu   sync.Mutex
	last map[string]Status // by name
}

// New returns the checks of a process. They run in this order.
func New(checks ...Check) *Checks { return &Checks{checks: checks, last: map[string]Status{}} }

// timeout is how long all checks may take together.
const timeout = 5 * time.Second

// Run runs all checks, which together may take five seconds.
func (c *Checks) Run(ctx context.Context) []Status {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var all []Status
	for _, check := range c.checks {
		all = append(all, check(ctx)...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, seen := time.Now(), map[string]Status{}
	for n := range all {
		s := &all[n]
		if before := c.last[s.Name]; s.Since.IsZero() && before.State == s.State {
			s.Since = before.Since
		} else if s.Since.IsZero() {
			s.Since = now
		}
		s.Since = s.Since.UTC().Truncate(time.Millisecond)
		seen[s.Name] = *s
	}
	c.last = seen
	return all
}

// Ready runs the checks. If the process is ready, it returns text for a human reader: one line, and another for
// each check with the state [Degraded]. Otherwise it returns a [*problem.Error] with status 503 for the first
// check that failed, with the statuses of all checks in the member "checks".
func (c *Checks) Ready(ctx context.Context) (string, error) {
	all := c.Run(ctx)
	var text strings.Builder
	text.WriteString("ready\n")
	for _, s := range all {
		switch s.State {
		case Failed:
			return "", refusal(s, all)
		case Degraded:
			fmt.Fprintf(&text, "degraded: %s, since %s: %s\n", s.Name, s.Since.Format(time.RFC3339), s.Error)
		}
	}
	return text.String(), nil
}

func refusal(s Status, all []Status) *problem.Error {
	p := problem.New(http.StatusServiceUnavailable, "not-ready", "%s: %s", s.Name, s.Error)
	var own *problem.Error
	if errors.As(s.err, &own) {
		other := *own
		p = &other
	}
	p.Members, p.Cause = map[string]any{"checks": all}, cmp.Or(p.Cause, s.err)
	return p
}

// ServeHTTP implements [http.Handler].
func (c *Checks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := c.Ready(r.Context())
	var p *problem.Error
	if errors.As(err, &p) {
		p.Send(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(text)) // an error means that the client has disconnected
}
