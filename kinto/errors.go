package kinto

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/feedctl/feedctl/internal/roundtrip"
)

// The errors that an [Error] matches, depending on its status.
var (
	ErrUnauthorized       = errors.New("unauthorized")                // 401: correct the credentials
	ErrForbidden          = errors.New("forbidden")                   // 403
	ErrNotFound           = errors.New("not found")                   // 404
	ErrReadOnly           = errors.New("method not allowed")          // 405: the server is read-only
	ErrConflict           = errors.New("conflict")                    // 409: the same request may succeed later
	ErrGone               = errors.New("service ended")               // 410
	ErrPreconditionFailed = errors.New("precondition failed")         // 412: see [Error.Existing]
	ErrTooLarge           = errors.New("request entity is too large") // 413
	ErrMalformed          = errors.New("malformed response")          // status 200, but a body not in the documented form
	ErrUnsupported        = errors.New("unsupported by the server")   // see [Server.Changes]
)

// An Error is an error response from the server, or one inside the response to a batch (Kinto API
// documentation, "Error responses").
type Error struct {
	Method  string
	URL     string // without credentials and query
	Status  int
	Errno   int    // the response's "errno", such as 110 for a missing record; 0 if there is none
	Name    string // the response's "error", such as "Not Found"
	Message string // the response's "message"
	// Details is the response's "details", unchanged. It may be nil.
	Details json.RawMessage
}

func (e *Error) Error() string {
	text := fmt.Sprintf("%s %s: status %d %s", e.Method, e.URL, e.Status, http.StatusText(e.Status))
	if e.Errno != 0 {
		text += fmt.Sprintf(" (errno %d)", e.Errno)
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Is reports whether target, such as [ErrNotFound], corresponds to the status.
func (e *Error) Is(target error) bool {
	matching, ok := map[int]error{
		http.StatusUnauthorized:          ErrUnauthorized,
		http.StatusForbidden:             ErrForbidden,
		http.StatusNotFound:              ErrNotFound,
		http.StatusMethodNotAllowed:      ErrReadOnly,
		http.StatusConflict:              ErrConflict,
		http.StatusGone:                  ErrGone,
		http.StatusPreconditionFailed:    ErrPreconditionFailed,
		http.StatusRequestEntityTooLarge: ErrTooLarge,
	}[e.Status]
	return ok && target == matching
}

// Existing returns the record because of which a conditional request failed, or nil.
func (e *Error) Existing() json.RawMessage {
	var details struct{ Existing json.RawMessage }
	if json.Unmarshal(e.Details, &details) != nil {
		return nil // details may be a list
	}
	return details.Existing
}

// Missing returns which kind of resource does not exist: "record", "collection" or "bucket". It returns
// "" for other errors, and if the server does not report the kind.
func (e *Error) Missing() string {
	var details struct {
		Resource string `json:"resource_name"`
	}
	if e.Status != http.StatusNotFound || json.Unmarshal(e.Details, &details) != nil {
		return ""
	}
	return details.Resource
}

// Status returns the status of an [Error], or 0 for other errors.
func Status(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// Retryable reports whether the same request may succeed later: the network failed, a response was
// truncated, or its status was 408, 409, 425, 429 or 5xx.
func Retryable(err error) bool {
	status := Status(err)
	return status == http.StatusConflict || roundtrip.Retryable(status, err)
}

// Permanent reports whether the same request will fail until something is changed: the server refused
// it, its certificate is invalid, only one side uses TLS, or the server redirects to another origin. If
// neither Retryable nor Permanent reports true, the error may be of either kind.
func Permanent(err error) bool {
	status := Status(err)
	return status != http.StatusConflict && roundtrip.Permanent(status, err)
}

// An errorBody is the body of an error response.
type errorBody struct {
	Errno   int             `json:"errno"`
	Error   string          `json:"error"`
	Message string          `json:"message"`
	Details json.RawMessage `json:"details"`
}

// maxError limits how many bytes of the body of an error response are read. The body may contain a
// record.
const maxError = 4 << 20

// responseError returns the error for a response: an [*Error], or an error from reading a body that was
// cut off.
func (s *Server) responseError(q Request, resp *http.Response) error {
	body, err := roundtrip.Failure(resp, maxError)
	if err != nil {
		return err
	}
	q.Query = nil
	return s.newError(q.Method, s.client.Hide(s.address(q)), resp.StatusCode, body)
}

func (s *Server) newError(method, url string, status int, body []byte) *Error {
	var b errorBody
	if json.Unmarshal(body, &b) != nil {
		b = errorBody{}
	}
	return &Error{Method: method, URL: url, Status: status, Errno: b.Errno, Name: s.client.Hide(b.Error), Message: s.client.Hide(b.Message), Details: b.Details}
}

// malformed returns the error for a response that cannot be decoded.
func (s *Server) malformed(q Request, err error) error {
	return fmt.Errorf("%s: %w: %w", s.what(q), ErrMalformed, err)
}
