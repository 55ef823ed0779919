package roundtrip

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// An Error is a request or response that was cut off. It is retryable.
type Error struct {
	What string // method and URL
	Err  error
}

func (e *Error) Error() string { return e.What + ": " + e.Err.Error() }

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

// RequestURL returns the URL of the request, for callers that use several servers.
func (e *Error) RequestURL() string {
	_, url, _ := strings.Cut(e.What, " ")
	return url
}

// Broken returns the error for a response that ends with err: an [*Error], unless the caller ended
// the request.
func Broken(what string, err error) error {
	var cut *Error
	if err == context.Canceled || err == context.DeadlineExceeded || errors.As(err, &cut) {
		return err
	}
	return &Error{what, err}
}

// Retryable reports whether the same request may succeed later: it was cut off, or the status of its
// response was 408, 425, 429 or 5xx. The status is 0 if there was no response.
func Retryable(status int, err error) bool {
	var cut *Error
	return !Permanent(status, err) && (status != 0 || errors.As(err, &cut))
}

// Permanent reports whether the same request will fail until something is changed: the server
// refused it, its certificate is invalid, only one side uses TLS, or it redirects to another origin.
// An error that is neither Retryable nor Permanent may be either.
func Permanent(status int, err error) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	case 0:
		var certificate *tls.CertificateVerificationError
		return errors.As(err, &certificate) || errors.Is(err, http.ErrSchemeMismatch) ||
			errors.Is(err, errTLS) || errors.Is(err, errOrigin) || errors.Is(err, errRedirects)
	}
	return status < http.StatusInternalServerError
}

var (
	errHeaderTimeout = errors.New("no response within the time limit")
	errRedirects     = errors.New("too many redirects")
	errOrigin        = errors.New("redirected to another origin: use the URL that it leads to")
	errTLS           = errors.New("the server speaks TLS: write https:// instead of http://")
)

// tlsAlert is part of net/http's error about a response that begins with a TLS alert (RFC 8446,
// section 6), which a TLS server sends in answer to plain HTTP.
const tlsAlert = `malformed HTTP response "\x15\x03`

// unanswered returns the error for a request that got no response.
func unanswered(what string, err error) error {
	var repeated *url.Error // its text repeats the URL
	if errors.As(err, &repeated) {
		err = repeated.Err
	}
	switch {
	case errors.Is(err, io.EOF): // callers must not mistake it for the end of a body
		err = io.ErrUnexpectedEOF
	case strings.Contains(err.Error(), tlsAlert):
		return fmt.Errorf("%s: %w", what, errTLS)
	case errors.Is(err, errOrigin), errors.Is(err, errRedirects):
		return fmt.Errorf("%s: %w", what, err)
	}
	return &Error{what, err}
}
