package main

import (
	"errors"
	"net/http"
	"strings"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// A hinted error knows what the user can do.
type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }

// hint returns what the user can do about err, or "".
func hint(err error) string {
	var h *hinted
	switch {
	case errors.As(err, &h):
		return h.hint
	case errors.Is(err, consumer.ErrTimeline):
		return "\"feedctl verify URL\" until it finds no page of before, then --on-gap replay, or a new sink"
	case consumer.IsGap(err):
		return "--on-gap replay, to apply again what is left from that time on, or --on-gap snapshot"
	case presigned(err):
		return "a new snapshot: presigned URLs, as the index of this one has, hold for a while only"
	case statusCode(err) == http.StatusUnauthorized, statusCode(err) == http.StatusForbidden:
		return "--credentials-file FILE, or the variable FEEDCTL_CREDENTIALS"
	case publishingRefused(err):
		return "a server that takes entities: \"feedctl serve --writable\""
	case errors.Is(err, couchdb.ErrUnauthorized), errors.Is(err, couchdb.ErrForbidden):
		return "another credential: --credentials-file FILE or FEEDCTL_CREDENTIALS for a source, --into-credentials-file FILE or FEEDCTL_INTO_CREDENTIALS for a target"
	case errors.Is(err, couchdb.ErrNotFound):
		return "another URL: the server has no database of this name, or no such filter or view"
	case errors.Is(err, storage.ErrUnsafe), errors.Is(err, storage.ErrPermission):
		return "\"feedctl doctor STORE\", which finds out what the store allows and keeps"
	case errors.Is(err, producer.ErrPresign):
		return "--public-url URL, if the store's objects can be read there"
	case errors.Is(err, storage.ErrFull): // before what it makes unknown
		return "freeing room, or \"feedctl prune\", and the same again; nothing that was acknowledged is lost"
	case errors.Is(err, producer.ErrUnknown):
		return "publishing the same input again; entities with a Content-ID are not published twice"
	}
	return ""
}

// presigned reports whether an object store refused a URL with a signature of its own.
func presigned(err error) bool {
	var status *consumer.StatusError
	return errors.As(err, &status) && status.StatusCode == http.StatusForbidden && strings.Contains(status.URL, "X-Amz-Signature=")
}

// publishingRefused reports whether a server does not take entities.
func publishingRefused(err error) bool {
	var status *consumer.StatusError
	return errors.As(err, &status) && status.Method == http.MethodPost && status.StatusCode == http.StatusMethodNotAllowed
}
