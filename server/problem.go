package server

import (
	"context"
	"errors"
	"net/http"
	"os"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/input"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// problems maps errors to problems. The first error that matches is used.
var problems = []struct {
	err    error
	status int
	name   string
	detail string // replaces the error's text, which may disclose too much
}{
	{feedstore.ErrNoSnapshot, http.StatusNotFound, "no-snapshot", "there is no such snapshot"},
	{feedstore.ErrNoDigest, http.StatusNotFound, "no-digest", "there is no such state digest"},
	{feedstore.ErrNoSnapshotPage, http.StatusNotFound, "no-page", "the snapshot has no such page"},
	{errDeletedPage, http.StatusGone, "feed-deleted", "the feed was deleted, and nothing has been published to it since"},
	{chain.ErrDeleted, http.StatusNotFound, "feed-deleted", "the feed was deleted, and nothing has been published to it since"},
	{chain.ErrNoFeed, http.StatusNotFound, "no-feed", "there is no such feed, or nothing has been published to it yet"},
	{chain.ErrNoPage, http.StatusNotFound, "no-page", ""},
	{feedstore.ErrToken, http.StatusGone, "changes-lost", "changes since the token are not known; start over without it, and compare the versions of all feeds"},
	{feedstore.ErrClosed, http.StatusServiceUnavailable, "shutting-down", "the server is shutting down"},
	{chain.ErrPruned, http.StatusGone, "page-pruned", ""},
	{chain.ErrCorrupt, http.StatusInternalServerError, "corrupt", "the resource is corrupt in the store"},
	{storage.ErrNoStore, http.StatusServiceUnavailable, "store-away", "the store does not exist; is its disk mounted?"},
	{storage.ErrLayout, http.StatusInternalServerError, "corrupt", "the store is damaged or of an unknown version"},
	{storage.ErrFull, http.StatusInsufficientStorage, "full", "the store is full; repeat with the same Content-IDs when it has space"},
	{storage.ErrPermission, http.StatusInternalServerError, "internal", "the store denies access to the server"},
	{producer.ErrUnknown, http.StatusServiceUnavailable, "unknown-outcome", "the entities may or may not have been published; repeat with the same Content-IDs"},
	{storage.ErrUnavailable, http.StatusServiceUnavailable, "store-away", "the store does not respond"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "store-away", "the store does not respond"},
	{producer.ErrClosed, http.StatusServiceUnavailable, "shutting-down", "the server is shutting down"},
	{producer.ErrClock, http.StatusServiceUnavailable, "clock", ""},
	{input.ErrLineTooLong, http.StatusRequestEntityTooLarge, "too-large", ""},
	{page.ErrPartTooLarge, http.StatusRequestEntityTooLarge, "too-large", ""},
	{os.ErrDeadlineExceeded, http.StatusRequestTimeout, "timeout", "the body arrived too slowly"},
	{errBody, http.StatusBadRequest, "incomplete", "the body ended early"},
	{input.ErrInvalid, http.StatusBadRequest, "invalid-request", ""},
	{producer.ErrInvalid, http.StatusUnprocessableEntity, "invalid-entity", ""},
	{context.Canceled, http.StatusServiceUnavailable, "unknown-outcome", "the request was cancelled"},
}

// problemOf returns the problem for any error.
func problemOf(err error) *problem.Error {
	var p *problem.Error
	if errors.As(err, &p) {
		return p
	}
	p = describe(err)
	p.Cause = err
	return p
}

func describe(err error) *problem.Error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return problem.New(http.StatusRequestEntityTooLarge, "too-large", "the body is larger than %d bytes", tooLarge.Limit)
	}
	for _, known := range problems {
		if !errors.Is(err, known.err) {
			continue
		}
		detail := known.detail
		if detail == "" {
			detail = err.Error()
		}
		return problem.New(known.status, known.name, "%s", detail)
	}
	return problem.New(http.StatusInternalServerError, "internal", "internal error; see the server's log")
}
