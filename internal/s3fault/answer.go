package s3fault

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Answer does not send the request but responds with an S3 error, such as 503 and
// "SlowDown".
func Answer(status int, code string) Fault {
	return answer(status, errorBody{Code: code}, nil)
}

// AnswerOfProxy does not send the request but responds like a failing proxy: with a line
// of text instead of an S3 error.
func AnswerOfProxy(status int) Fault {
	return func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		closeBody(r)
		text := http.StatusText(status) + "\n"
		if r.Method == http.MethodHead {
			text = ""
		}
		header := http.Header{"Content-Type": {"text/plain"}}
		return response(r, status, header, []byte(text)), nil
	}
}

// Redirect does not send the request but redirects it to another host of the
// service: temporarily with 307, or permanently with 301 (PermanentRedirect).
func Redirect(status int, to *url.URL) Fault {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		location := *r.URL
		location.Scheme, location.Host = to.Scheme, to.Host
		code := "TemporaryRedirect"
		if status == http.StatusMovedPermanently {
			code = "PermanentRedirect"
		}
		header := http.Header{"Location": {location.String()}}
		return answer(status, errorBody{Code: code, Endpoint: to.Host}, header)(next, r)
	}
}

// Fail does not send the request and fails with err.
func Fail(err error) Fault {
	return func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		closeBody(r)
		return nil, err
	}
}

// ErrReset returns the error that a read returns after the peer has reset the connection.
func ErrReset() error {
	return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
}

// ErrTimeout returns the error that a read returns after its deadline.
func ErrTimeout() error { return &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded} }

// Landed sends the request and waits for the response, but then returns the result of
// fault, so that the client does not know the outcome.
func Landed(fault Fault) Fault {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if err := drain(response); err != nil {
			return nil, err
		}
		return fault(next, r)
	}
}

// Twice sends the request twice in sequence and returns the second response, like a proxy
// that retries.
func Twice() Fault {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		requests, err := copies(r, 2)
		if err != nil {
			return nil, err
		}
		response, err := next.RoundTrip(requests[0])
		if err != nil {
			return nil, err
		}
		if err := drain(response); err != nil {
			return nil, err
		}
		return next.RoundTrip(requests[1])
	}
}

// Through applies a fault to the request that another fault sends.
func Through(outer, inner Fault) Fault {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		return outer(roundTripper(func(r *http.Request) (*http.Response, error) { return inner(next, r) }), r)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type errorBody struct {
	XMLName   xml.Name `xml:"Error"`
	Code      string
	Message   string
	Endpoint  string `xml:",omitempty"`
	Resource  string
	RequestId string //nolint:staticcheck // named as in the XML
}

func answer(status int, what errorBody, header http.Header) Fault {
	return func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		closeBody(r)
		body := what // a copy, since requests may be concurrent
		body.Message, body.Resource, body.RequestId = "This answer is a fault of a test.", r.URL.Path, "FAULT"
		var text []byte
		if r.Method != http.MethodHead { // errors in response to HEAD have no body
			var err error
			if text, err = xml.Marshal(body); err != nil {
				return nil, fmt.Errorf("encode error %s: %w", body.Code, err)
			}
			text = append([]byte(xml.Header), text...)
		}
		all := header.Clone()
		if all == nil {
			all = make(http.Header)
		}
		all.Set("Content-Type", "application/xml")
		all.Set("X-Amz-Request-Id", body.RequestId)
		return response(r, status, all, text), nil
	}
}

func response(r *http.Request, status int, header http.Header, body []byte) *http.Response {
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", status, http.StatusText(status)),
		StatusCode:    status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// drain reads a response to its end, so that the request has finished.
func drain(response *http.Response) error {
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return fmt.Errorf("read response to %s %s: %w", response.Request.Method, response.Request.URL.Path, err)
	}
	return nil
}

// copies returns n requests like r, whose body it reads and closes.
func copies(r *http.Request, n int) ([]*http.Request, error) {
	defer closeBody(r)
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, fmt.Errorf("read the body of %s %s: %w", r.Method, r.URL.Path, err)
		}
	}
	all := make([]*http.Request, n)
	for i := range all {
		all[i] = r.Clone(r.Context())
		if len(body) > 0 {
			all[i].Body = io.NopCloser(bytes.NewReader(body))
		}
	}
	return all, nil
}
