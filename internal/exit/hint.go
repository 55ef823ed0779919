package exit

import (
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

type hintError struct {
	error
	hint string
}

func (e *hintError) Unwrap() error { return e.error }

// WithHint returns err with a hint that says what the user can do about it. The hint is worded to
// follow "Try:".
func WithHint(err error, hint string) error { return &hintError{err, hint} }

// Hint returns a hint that says what the user can do about err, or "" if there is none.
func Hint(err error) string {
	if h, ok := errors.AsType[*hintError](err); ok {
		return h.hint
	}
	response, _ := errors.AsType[*consumer.StatusError](err)
	switch status := HTTPStatus(err); {
	case errors.Is(err, consumer.ErrTimeline):
		return "\"feedctl verify URL\" until it finds no page of the earlier timeline, then --on-gap replay, or a new sink"
	case errors.Is(err, consumer.ErrOtherFeed):
		return "another URL, or an empty sink; --on-gap replay applies the other feed from its beginning and keeps what the sink has"
	case consumer.IsGap(err):
		return "--on-gap replay, to apply the remaining entities from that time again, or --on-gap snapshot"
	case response != nil && status == http.StatusForbidden && strings.Contains(response.URL, "X-Amz-Signature="):
		return "a new snapshot: the index of this one has presigned URLs, which expire"
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return "--credentials-file FILE, or the variable FEEDCTL_CREDENTIALS"
	case response != nil && response.Method == http.MethodPost && status == http.StatusMethodNotAllowed:
		return "a server that accepts entities: \"feedctl serve --writable\""
	case isAny(err, couchdb.ErrUnauthorized, couchdb.ErrForbidden):
		return "another credential: --credentials-file FILE or FEEDCTL_CREDENTIALS for a source, --into-credentials-file FILE or FEEDCTL_INTO_CREDENTIALS for a target"
	case isAny(err, kinto.ErrUnauthorized, kinto.ErrForbidden):
		return "another credential: --credentials-file FILE or FEEDCTL_CREDENTIALS for a source, --into-credentials-file FILE or FEEDCTL_INTO_CREDENTIALS for a target, --against-credentials-file FILE or FEEDCTL_AGAINST_CREDENTIALS for --against; it must have the right to read the collection, and the bucket must exist"
	case errors.Is(err, kinto.ErrNotFound):
		return "another URL: the server has no such bucket or collection"
	case errors.Is(err, couchdb.ErrNotFound):
		return "another URL: the server has no database of this name, or no such filter or view"
	case isAny(err, storage.ErrUnsafe, storage.ErrPermission):
		return "\"feedctl doctor STORE\", which checks the permissions and guarantees of the store"
	case errors.Is(err, snapshots.ErrPresign):
		return "--public-url URL, if the store's objects can be read there"
	case errors.Is(err, storage.ErrFull): // checked before ErrUnknown, since an ErrUnknown may wrap it
		return "freeing space, or \"feedctl prune\", and then the same command again; acknowledged entities are not lost"
	case errors.Is(err, producer.ErrUnknown):
		return "publishing the same input again; entities with a Content-ID are not published twice"
	}
	if network, ok := errors.AsType[*net.OpError](err); ok && network.Op == "dial" {
		if network.Addr == nil {
			return "another URL: the name of its host cannot be resolved"
		}
		return "starting the server, or another URL: nothing answers at " + network.Addr.String()
	}
	return ""
}
