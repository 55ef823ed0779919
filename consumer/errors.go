package consumer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

// Causes of errors, to be matched with [errors.Is].
var (
	// ErrLinks means that links of a page are missing, or that the links of neighbouring pages do not agree
	// (specification, section "Pagination").
	ErrLinks = errors.New("links are not consistent")
	// ErrTimeOrder means that Last-Modified decreases within a page or from one
	// page to the next (specification, section "Last-Modified").
	ErrTimeOrder = errors.New("Last-Modified goes back")
	// ErrLoop means that the links lead back to a page visited before.
	ErrLoop = errors.New("pages form a loop")
	// ErrPageChanged means that a page no longer begins with the entities that were
	// read before (specification, section "Immutability of pages").
	ErrPageChanged = errors.New("page changed other than by growing")
	// ErrSnapshotChanged means that a snapshot was replaced while it was being read:
	// its URL now leads to another one.
	ErrSnapshotChanged = errors.New("snapshot was replaced by another")
	// ErrOrigin means that a link or redirect leads to an origin that is not in
	// [Config.AllowOrigins].
	ErrOrigin = errors.New("origin is not allowed")
	// ErrMediaType means that the response has an unexpected media type.
	ErrMediaType = errors.New("unexpected media type")
	// ErrTooLarge means that a limit of [Config] is exceeded.
	ErrTooLarge = errors.New("larger than the limit")
)

// A ContentIDNotFoundError means that the entity of the position is no longer in the
// feed, although the feed reaches back far enough in time: the feed was replaced or
// rewritten. Later entities may have been missed.
type ContentIDNotFoundError struct {
	URL      string // the feed's entry point
	Position feed.Position
	// Retention is what the server said about retention, if the page of the position was pruned.
	Retention Retention
}

func (e *ContentIDNotFoundError) Error() string {
	return fmt.Sprintf("resume %s: Content-ID %q of %s is not in the feed: its page was pruned, or the feed was restored to an older state, or replaced: replay from that time or start over from a snapshot%s",
		e.URL, e.Position.ContentID, feed.FormatTime(e.Position.LastModified), e.Retention)
}

// A NotOldEnoughError means that the oldest entity of a feed is newer than the
// position: entities in between may have been removed.
type NotOldEnoughError struct {
	URL      string // the feed's entry point
	Position feed.Position
	Oldest   time.Time // Last-Modified of the oldest entity or page
	// Retention is what the server said about retention, if the page of the position was pruned.
	Retention Retention
}

func (e *NotOldEnoughError) Error() string {
	return fmt.Sprintf("resume %s: the position is %s, but the oldest entity is from %s: start over from a snapshot or from the beginning%s",
		e.URL, feed.FormatTime(e.Position.LastModified), feed.FormatTime(e.Oldest), e.Retention)
}

// A PageError is an error in a page. Part counts from 0, and Offset is in bytes from
// the start of the page; Part is -1 if the error concerns the page as a whole.
type PageError struct {
	URL    string
	Part   int
	Offset int64
	Err    error
}

func (e *PageError) Error() string {
	if e.Part < 0 {
		return fmt.Sprintf("read page %s: %v", shown(e.URL), e.Err)
	}
	return fmt.Sprintf("read page %s: part %d, offset %d: %v", shown(e.URL), e.Part, e.Offset, e.Err)
}

func (e *PageError) Unwrap() error { return e.Err }

// A StatusError is a response with an error status.
type StatusError struct {
	Method     string // of the request; empty for GET and HEAD
	URL        string
	StatusCode int
	// Problem is the server's explanation; the zero Problem if there is none.
	Problem Problem
	// RetryAfter is the pause requested by the server, or 0.
	RetryAfter time.Duration
}

// A Problem is the body of an error response (RFC 9457).
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	// KeepAgeSeconds and Snapshot are extension members of feedctl, for a page that was pruned: how long
	// the feed keeps entities, and the URL of its newest snapshot.
	KeepAgeSeconds int64  `json:"keepAgeSeconds"`
	Snapshot       string `json:"snapshot"`
}

func (e *StatusError) Error() string {
	name := http.StatusText(e.StatusCode)
	text := fmt.Sprintf("%s %s: status %d %s", strings.ToLower(cmp.Or(e.Method, http.MethodGet)), shown(e.URL), e.StatusCode, name)
	for _, more := range [...]string{e.Problem.Title, e.Problem.Detail} {
		if more != "" && more != name {
			text += ": " + oneLine(more)
		}
	}
	return text
}

// oneLine replaces unprintable characters in a server's text, which is shown to users.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// gone reports whether err means that there is no resource at the URL.
func gone(err error) bool {
	var status *StatusError
	return errors.Is(err, ErrNotFound) || errors.As(err, &status) &&
		(status.StatusCode == http.StatusNotFound || status.StatusCode == http.StatusGone)
}

// A transportError is a failure to send a request or to receive a response. It may
// succeed when repeated.
type transportError struct {
	url string
	err error
}

func (e *transportError) Error() string { return fmt.Sprintf("get %s: %v", shown(e.url), e.err) }
func (e *transportError) Unwrap() error { return e.err }

// RequestURL returns the URL of the request, for callers that use several servers.
func (e *transportError) RequestURL() string { return e.url }

// A streamError is a failure to read a page while the caller was reading the stream of an entity.
type streamError struct{ err error }

func (e *streamError) Error() string { return e.err.Error() }
func (e *streamError) Unwrap() error { return e.err }

// isTransport reports whether err is a transport error or the error of the caller's context, and needs no more context.
func isTransport(err error) bool {
	var broken *transportError
	return errors.As(err, &broken) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Retryable reports whether the same request may succeed later: the network failed,
// a page was truncated, or the server answered 408, 425, 429 or 5xx. The iterators return such an error after the
// attempts allowed by [RetryConfig], or at once if part of a streamed entity had been read. To continue, start from the
// position of the last complete entity.
func Retryable(err error) bool {
	var status *StatusError
	if errors.As(err, &status) {
		return retryableStatus(status.StatusCode)
	}
	var permanent *tls.CertificateVerificationError
	if errors.As(err, &permanent) {
		return false
	}
	var unverified *unverifiedError
	if isPermanent(err) || errors.As(err, &unverified) {
		return false
	}
	var broken *transportError
	return errors.As(err, &broken) || errors.Is(err, page.ErrTruncated) || errors.Is(err, ErrDamaged)
}

// isPermanent reports whether err has a method Permanent that returns true.
func isPermanent(err error) bool {
	var final interface{ Permanent() bool }
	return errors.As(err, &final) && final.Permanent()
}

func retryableStatus(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return code >= 500
}

// IsGap reports whether err means that entities after a position may have been
// lost, so that a [GapPolicy] applies: [ContentIDNotFoundError],
// [NotOldEnoughError], [TailError], [TimelineError], [IdentityError] or [EpochError].
func IsGap(err error) bool {
	var id *ContentIDNotFoundError
	var old *NotOldEnoughError
	var tail *TailError
	return errors.As(err, &id) || errors.As(err, &old) || errors.As(err, &tail) ||
		errors.Is(err, ErrTimeline) || errors.Is(err, ErrOtherFeed) || errors.Is(err, ErrEpoch)
}

// signature matches the signature in a presigned URL, which is as secret as a password.
var signature = regexp.MustCompile(`(?i)([?&](?:X-(?:Amz|Goog)-(?:Signature|Security-Token)|Signature|sig)=)[^&#]*`)

// shown returns a URL without its secrets, for errors and logs.
func shown(url string) string { return signature.ReplaceAllString(redact(url), "${1}xxxxx") }

// redact returns a URL without user name and password.
func redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(a URL that cannot be parsed)"
	}
	u.User = nil
	return u.String()
}
