package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/input"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// problemType is the prefix of the type of every problem; the package documentation
// lists the types.
const problemType = "urn:feedctl:problem:"

// A problem is an error that is sent to the client as in RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Published and Duplicates count the entities of a publish that were processed
	// before the problem.
	Published  *int `json:"published,omitempty"`
	Duplicates *int `json:"duplicates,omitempty"`

	cause error // for the log; may be nil
}

func newProblem(status int, name, format string, args ...any) *problem {
	return &problem{
		Type: problemType + name, Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...),
	}
}

func (p *problem) Error() string {
	if p.cause != nil {
		return p.cause.Error()
	}
	return p.Detail
}

func (p *problem) Unwrap() error { return p.cause }

// send answers a request with p.
func (p *problem) send(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	data, err := json.Marshal(p)
	if err != nil {
		data = nil // impossible: strings and numbers only
	}
	data = append(data, '\n')
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(data) // an error means that the client has disconnected
	}
}

// problems maps errors to problems. The first error that matches counts.
var problems = []struct {
	err    error
	status int
	name   string
	detail string // replaces the error's text, which may disclose too much
}{
	{feedstore.ErrNoSnapshot, http.StatusNotFound, "no-snapshot", "there is no such snapshot"},
	{feedstore.ErrNoSnapshotPage, http.StatusNotFound, "no-page", "the snapshot has no such page"},
	{errDeletedPage, http.StatusGone, "feed-deleted", "the feed was deleted, and nothing was published to it since"},
	{chain.ErrDeleted, http.StatusNotFound, "feed-deleted", "the feed was deleted, and nothing was published to it since"},
	{chain.ErrNoFeed, http.StatusNotFound, "no-feed", "there is no such feed, or nothing was published to it yet"},
	{chain.ErrNoPage, http.StatusNotFound, "no-page", ""},
	{chain.ErrPruned, http.StatusGone, "page-pruned", ""},
	{chain.ErrCorrupt, http.StatusInternalServerError, "corrupt", "the resource is corrupt in the store"},
	{storage.ErrNoStore, http.StatusServiceUnavailable, "store-away", "the store does not exist; is its disk mounted?"},
	{storage.ErrLayout, http.StatusInternalServerError, "corrupt", "the store is damaged or of an unknown version"},
	{storage.ErrFull, http.StatusInsufficientStorage, "full", "the store is full; repeat with the same Content-IDs when it has space"},
	{storage.ErrPermission, http.StatusInternalServerError, "internal", "the store denies access to the server"},
	{producer.ErrUnknown, http.StatusServiceUnavailable, "unknown-outcome", "the entities may or may not be published; repeat with the same Content-IDs"},
	{storage.ErrUnavailable, http.StatusServiceUnavailable, "store-away", "the store does not respond"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "store-away", "the store does not respond"},
	{producer.ErrClosed, http.StatusServiceUnavailable, "shutting-down", "the server is shutting down"},
	{producer.ErrClock, http.StatusServiceUnavailable, "clock", ""},
	{input.ErrLineTooLong, http.StatusRequestEntityTooLarge, "too-large", ""},
	{page.ErrPartTooLarge, http.StatusRequestEntityTooLarge, "too-large", ""},
	{os.ErrDeadlineExceeded, http.StatusRequestTimeout, "timeout", "the body came too slowly"},
	{errBody, http.StatusBadRequest, "incomplete", "the body ended early"},
	{input.ErrInvalid, http.StatusBadRequest, "invalid-request", ""},
	{producer.ErrInvalid, http.StatusUnprocessableEntity, "invalid-entity", ""},
	{context.Canceled, http.StatusServiceUnavailable, "unknown-outcome", "the request was cancelled"},
}

// problemOf returns the problem for any error.
func problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	p = describe(err)
	p.cause = err
	return p
}

func describe(err error) *problem {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return newProblem(http.StatusRequestEntityTooLarge, "too-large", "the body is larger than %d bytes", tooLarge.Limit)
	}
	for _, known := range problems {
		if !errors.Is(err, known.err) {
			continue
		}
		detail := known.detail
		if detail == "" {
			detail = err.Error()
		}
		return newProblem(known.status, known.name, "%s", detail)
	}
	return newProblem(http.StatusInternalServerError, "internal", "internal error; see the server's log")
}
