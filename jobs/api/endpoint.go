package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/feedctl/feedctl/internal/pgerr"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/jobs"
)

// A handler answers a request, or returns an error to send as a problem. Errors after the
// answer has begun are not returned.
type handler func(w http.ResponseWriter, r *http.Request) error

type methods = map[string]handler

// requestTime is how long a request may take, from its header to the end of the answer, unless the
// request follows a log.
const requestTime = 30 * time.Second

// endpoint returns the handler of one route. The handler of GET also serves HEAD.
func (a *API) endpoint(handlers methods) http.Handler {
	if get, ok := handlers[http.MethodGet]; ok {
		handlers[http.MethodHead] = get
	}
	allowed := strings.Join(slices.Sorted(maps.Keys(handlers)), ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, ok := handlers[r.Method]
		if !ok {
			h = refuseMethod(allowed)
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if err := h(w, r); err != nil {
			a.fail(w, r, err)
		}
	})
}

func refuseMethod(allowed string) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if allowed == "" {
			return problem.New(http.StatusNotImplemented, "method", "method %.20q is not known", r.Method)
		}
		w.Header().Set("Allow", allowed)
		return problem.New(http.StatusMethodNotAllowed, "method", "method %s is not allowed here: want one of %s", r.Method, allowed)
	}
}

// reads wraps the handler of a request that reads.
func (a *API) reads(s scope, h handler) handler { return a.readers.allowed(s, bounded(h)) }

// writes wraps the handler of a request that changes something.
func (a *API) writes(s scope, h handler) handler { return a.writers.allowed(s, bounded(h)) }

// bounded limits the time of a handler to requestTime.
func bounded(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		control := http.NewResponseController(w) // in tests, a writer may not support deadlines
		_ = control.SetWriteDeadline(time.Now().Add(requestTime + 5*time.Second))
		if r.ContentLength != 0 {
			_ = control.SetReadDeadline(time.Now().Add(requestTime))
		}
		ctx, cancel := context.WithTimeout(r.Context(), requestTime)
		defer cancel()
		return h(w, r.WithContext(ctx))
	}
}

// wellFormed wraps a handler. It refuses paths that the database cannot store as text, and unknown
// or malformed parameters.
func wellFormed(known []string, h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if !isText(r.URL.Path) {
			return noResource()
		}
		if err := query(r).only(known); err != nil {
			return err
		}
		return h(w, r)
	}
}

// isText reports whether PostgreSQL can store a string.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

func (a *API) nothing(http.ResponseWriter, *http.Request) error { return noResource() }

func noResource() error {
	return problem.New(http.StatusNotFound, "no-resource", "there is nothing at this path")
}

// fail answers with a problem.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError && p.Status != http.StatusNotImplemented && r.Context().Err() == nil {
		a.log.LogAttrs(r.Context(), slog.LevelError, "answered with an error",
			slog.String("path", r.URL.Path), slog.Int("status", p.Status), slog.Any("error", err))
	}
	p.Send(w, r)
}

// problemOf returns the problem for any error.
func problemOf(err error) *problem.Error {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return p
	}
	p := describe(err)
	p.Cause = err
	return p
}

func describe(err error) *problem.Error {
	if invalid, ok := errors.AsType[jobs.InvalidError](err); ok {
		p := problem.New(http.StatusUnprocessableEntity, "invalid-jobs", "%v", invalid)
		p.Members = map[string]any{"problems": invalid}
		return p
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem.New(http.StatusRequestEntityTooLarge, "too-large", "the body is larger than %d bytes", tooLarge.Limit)
	}
	state, hasState := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	switch {
	case errors.Is(err, jobs.ErrNoJob):
		return problem.New(http.StatusNotFound, "no-job", "there is no such job")
	case errors.Is(err, jobs.ErrFollows):
		return problem.New(http.StatusConflict, "follows", "the job follows its source, and has no end: pause or delete it")
	case errors.Is(err, jobs.ErrTaken):
		return problem.New(http.StatusConflict, "taken", "%v", err)
	case errors.Is(err, jobs.ErrConflict):
		return problem.New(http.StatusPreconditionFailed, "precondition", "%v", err)
	case errors.Is(err, context.DeadlineExceeded), pgerr.Network(err), hasState && pgerr.Passes(state.SQLState()):
		return problem.New(http.StatusServiceUnavailable, "database-away", "the database of jobs does not respond")
	}
	return problem.New(http.StatusInternalServerError, "internal", "internal error; see the server's log")
}

// answer sends a value as JSON.
func answer(w http.ResponseWriter, status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // an error means that the client has disconnected
	return nil
}
