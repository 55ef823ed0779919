package s3fault

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// ResetRequest breaks the connection after n bytes of the request's body have been
// sent. A request with a body of at most n bytes succeeds.
func ResetRequest(n int64) Fault {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.Body == nil || r.ContentLength >= 0 && r.ContentLength <= n {
			return next.RoundTrip(r)
		}
		broken := r.Clone(r.Context())
		broken.GetBody = nil
		broken.Body = &brokenBody{ReadCloser: r.Body, left: n, err: ErrReset()}
		return next.RoundTrip(broken)
	}
}

// ResetResponse breaks the connection after n bytes of the response's body.
func ResetResponse(n int64) Fault { return breakResponse(n, ErrReset) }

// Truncate ends the response's body after n bytes, before its Content-Length.
func Truncate(n int64) Fault {
	return breakResponse(n, func() error { return io.ErrUnexpectedEOF })
}

func breakResponse(n int64, err func() error) Fault {
	return onResponse(func(response *http.Response) error {
		if response.ContentLength < 0 || response.ContentLength > n {
			response.Body = &brokenBody{ReadCloser: response.Body, left: n, err: err()}
		}
		return nil
	})
}

// A brokenBody fails after left bytes.
type brokenBody struct {
	io.ReadCloser
	left int64
	err  error
}

func (b *brokenBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Shorten truncates the response's body to n bytes and adjusts Content-Length.
func Shorten(n int64) Fault {
	return editBody(func(body []byte) []byte { return body[:min(n, int64(len(body)))] })
}

// FlipBody flips a bit of the byte at the offset in the response's body. A negative
// offset counts from the end, and one beyond the end wraps around.
func FlipBody(offset int64) Fault {
	return editBody(func(body []byte) []byte {
		if n := int64(len(body)); n > 0 {
			body[(offset%n+n)%n] ^= 0x10
		}
		return body
	})
}

// editBody replaces the response's body. It removes the checksums of the server, since
// not all servers send them.
func editBody(edit func([]byte) []byte) Fault {
	return onResponse(func(response *http.Response) error {
		if response.Request.Method == http.MethodHead || response.StatusCode >= http.StatusMultipleChoices {
			return nil
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return err
		}
		body = edit(body)
		for name := range response.Header {
			if strings.HasPrefix(name, "X-Amz-Checksum-") {
				delete(response.Header, name)
			}
		}
		response.Body = io.NopCloser(bytes.NewReader(body))
		response.ContentLength = int64(len(body))
		response.TransferEncoding = nil
		response.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return nil
	})
}

// FlipHeader changes one byte, at an offset as in [FlipBody], in every value of the
// response headers whose name begins with prefix, such as "X-Amz-Meta-".
func FlipHeader(prefix string, offset int) Fault {
	return onResponse(func(response *http.Response) error {
		for name, values := range response.Header {
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			flipped := make([]string, len(values))
			for i, value := range values {
				flipped[i] = flipText(value, offset)
			}
			response.Header[name] = flipped
		}
		return nil
	})
}

// flipText changes a byte into another one that is valid in a header.
func flipText(value string, offset int) string {
	n := len(value)
	if n == 0 {
		return value
	}
	text := []byte(value)
	at := (offset%n + n) % n
	if text[at] ^= 0x01; text[at] <= ' ' || text[at] > '~' {
		text[at] = 'x'
	}
	return string(text)
}

// Headers replaces the headers of the response with those of another one, as from a server whose
// reads are not atomic; the length remains that of the body. A response without an object is not
// changed.
func Headers(other http.Header) Fault {
	return onResponse(func(response *http.Response) error {
		if response.StatusCode >= http.StatusMultipleChoices {
			return nil
		}
		mixed := other.Clone()
		for _, name := range []string{"Content-Length", "Content-Range"} {
			mixed.Del(name)
			if values := response.Header.Values(name); len(values) > 0 {
				mixed[name] = values
			}
		}
		response.Header = mixed
		return nil
	})
}

// EditList edits the objects of a listing, each an XML element "<Contents>": it can repeat or
// reorder them, or omit some, as a server that returns an old state does.
func EditList(edit func(contents []string) []string) Fault {
	const begin, end = "<Contents>", "</Contents>"
	return editBody(func(body []byte) []byte {
		head, rest, ok := strings.Cut(string(body), begin)
		if !ok {
			return body
		}
		last := strings.LastIndex(rest, end)
		tail := rest[last+len(end):]
		contents := strings.SplitAfter(begin+rest[:last+len(end)], end)
		return []byte(head + strings.Join(edit(contents[:len(contents)-1]), "") + tail)
	})
}

// onResponse returns a fault that affects only the response.
func onResponse(change func(*http.Response) error) Fault {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if err := change(response); err != nil {
			response.Body.Close()
			return nil, err
		}
		return response, nil
	}
}
