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
	// ErrLinks: the links of a page are missing, or those of neighbours do not
	// agree (specification, section "Pagination").
	ErrLinks = errors.New("links are not consistent")
	// ErrTimeOrder: Last-Modified goes back within a page or from one page to
	// the next (specification, section "Last-Modified").
	ErrTimeOrder = errors.New("Last-Modified goes back")
	// ErrLoop: following the links leads to a page that was there before.
	ErrLoop = errors.New("pages form a loop")
	// ErrPageChanged: a page that was read before does not begin with what was
	// read (specification, section "Immutability of pages").
	ErrPageChanged = errors.New("page changed other than by growing")
	// ErrSnapshotChanged: a snapshot that was read in part is no longer there;
	// its URL has another one now.
	ErrSnapshotChanged = errors.New("snapshot was replaced by another one")
	// ErrOrigin: a link or redirect leads to an origin that is not in
	// [Config.AllowOrigins].
	ErrOrigin = errors.New("origin is not allowed")
	// ErrMediaType: the response is not of the type it has to be.
	ErrMediaType = errors.New("unexpected media type")
	// ErrTooLarge: a limit of [Config] is exceeded.
	ErrTooLarge = errors.New("larger than the limit")
)

// A ContentIDNotFoundError means that the entity a consumer read last is not
// in the feed any more, though the feed reaches back far enough in time: the
// feed was replaced or rewritten. What came after it may have been missed.
type ContentIDNotFoundError struct {
	URL      string // the feed's entry point
	Position feed.Position
}

func (e *ContentIDNotFoundError) Error() string {
	return fmt.Sprintf("resume %s: Content-ID %q of %s is not in the feed: replay from that time or start over from a snapshot",
		e.URL, e.Position.ContentID, feed.FormatTime(e.Position.LastModified))
}

// A NotOldEnoughError means that the oldest entity of a feed is newer than the
// position: what was between them may have been removed.
type NotOldEnoughError struct {
	URL      string // the feed's entry point
	Position feed.Position
	Oldest   time.Time // Last-Modified of the oldest entity or page
}

func (e *NotOldEnoughError) Error() string {
	return fmt.Sprintf("resume %s: position is %s but the oldest entity is of %s: start over from a snapshot or from the beginning",
		e.URL, feed.FormatTime(e.Position.LastModified), feed.FormatTime(e.Oldest))
}

// A PageError tells what is wrong with a page, and where. Part counts from 0
// and Offset is in bytes from the start of the page; Part is -1 if the error is
// about the page as a whole.
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

// A StatusError is a response with a status that says no.
type StatusError struct {
	Method     string // of the request; empty for GET and HEAD
	URL        string
	StatusCode int
	// Problem is what the server says about it; the zero Problem if it says
	// nothing.
	Problem Problem
	// RetryAfter is how long the server wants to be left alone; 0 if it does
	// not say.
	RetryAfter time.Duration
}

// A Problem is the body of an error response (RFC 9457), as far as it is used.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
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

// oneLine replaces what is not for print in a server's words: they are shown to people.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// gone reports whether err says that there is nothing at the URL.
func gone(err error) bool {
	var status *StatusError
	return errors.Is(err, ErrNotFound) || errors.As(err, &status) &&
		(status.StatusCode == http.StatusNotFound || status.StatusCode == http.StatusGone)
}

// A transportError is a request or a response body that broke. It is worth
// another try.
type transportError struct {
	url string
	err error
}

func (e *transportError) Error() string { return fmt.Sprintf("get %s: %v", shown(e.url), e.err) }
func (e *transportError) Unwrap() error { return e.err }

// A streamError is a page that broke while the stream of an entity was read.
type streamError struct{ err error }

func (e *streamError) Error() string { return e.err.Error() }
func (e *streamError) Unwrap() error { return e.err }

// isTransport reports whether err has its final form already: a broken
// transport, or the end of the caller's context.
func isTransport(err error) bool {
	var broken *transportError
	return errors.As(err, &broken) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Retryable reports whether the same request may succeed later: the network
// broke, a page was cut short, or the server answered 408, 425, 429 or 5xx. The
// iterators have then tried as often as [RetryConfig] says, or could not try
// because a part of a streamed entity was already given out. Go on from the
// position of the last whole entity.
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

// isPermanent reports whether err says of itself that it does not pass.
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
// [NotOldEnoughError] or [TimelineError].
func IsGap(err error) bool {
	var id *ContentIDNotFoundError
	var old *NotOldEnoughError
	return errors.As(err, &id) || errors.As(err, &old) || errors.Is(err, ErrTimeline)
}

// signature finds what makes a presigned URL as good as a password while it holds.
var signature = regexp.MustCompile(`(?i)([?&](?:X-(?:Amz|Goog)-(?:Signature|Security-Token)|Signature|sig)=)[^&#]*`)

// shown returns a URL as it may be in errors and logs: without what lets others read
// what is there.
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
