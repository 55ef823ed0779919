// Package problem answers HTTP requests with errors in the form of RFC 9457.
package problem

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// prefix is the beginning of the type of every problem.
const prefix = "urn:feedctl:problem:"

// An Error is sent to the client in the form of RFC 9457.
type Error struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Members are extension members.
	Members map[string]any `json:"-"`
	// Cause is for the log. It may be nil.
	Cause error `json:"-"`
}

// New returns a problem whose type ends with name.
func New(status int, name, format string, args ...any) *Error {
	return &Error{Type: prefix + name, Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// Named reports whether the type of the problem ends with name, as in [New].
func (p *Error) Named(name string) bool { return p.Type == prefix+name }

func (p *Error) Error() string {
	if p.Cause != nil {
		return p.Cause.Error()
	}
	return p.Detail
}

// Unwrap returns the cause.
func (p *Error) Unwrap() error { return p.Cause }

// MarshalJSON implements [json.Marshaler]. The extension members come last.
func (p *Error) MarshalJSON() ([]byte, error) {
	type plain Error
	data, err := json.Marshal((*plain)(p))
	if err != nil || len(p.Members) == 0 {
		return data, err
	}
	members, err := json.Marshal(p.Members)
	if err != nil {
		return nil, err
	}
	data[len(data)-1] = ','
	return append(data, members[1:]...), nil
}

// Send answers a request with the problem.
func (p *Error) Send(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	data, err := json.Marshal(p)
	if err != nil {
		data = nil // impossible: the members are strings, numbers and structs of these
	}
	data = append(data, '\n')
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(data) // an error means that the client has disconnected
	}
}
