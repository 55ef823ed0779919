package represent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/problem"
)

// growing is a resource that grows whenever it is opened, up to the given number of times.
type growing struct {
	text  string
	times int
	opens int
}

func (g *growing) represent() *Representation {
	return &Representation{
		Tag: fmt.Sprint(len(g.text)), Stored: int64(len(g.text)), Tail: "-end",
		Digest: func(context.Context) ([]byte, error) { return nil, nil },
	}
}

func (g *growing) Stat(context.Context) (*Representation, error) { return g.represent(), nil }

func (g *growing) Open(_ context.Context, offset, length int64) (*Representation, io.ReadCloser, error) {
	if g.opens++; g.opens <= g.times {
		g.text += fmt.Sprint("+", g.opens)
	}
	rest := g.text[offset:]
	if length >= 0 {
		rest = rest[:length]
	}
	return g.represent(), io.NopCloser(strings.NewReader(rest)), nil
}

// TestGrowing requests parts of a resource that grows after the part to send has been computed and before the
// resource is opened. A part up to the end is sent with what has been added, without opening the resource again.
func TestGrowing(t *testing.T) {
	s := NewSender(Config{MaxCoded: 1})
	for _, c := range []struct {
		header, value string // besides Range
		part          string
		times         int // how many times the resource grows
		status        int
		body          string
		contentRange  string
		opens         int
	}{
		{part: "bytes=4-", times: 100, status: 206, body: "efgh+1-end", contentRange: "bytes 4-13/14", opens: 1},
		{part: "bytes=4-", status: 206, body: "efgh-end", contentRange: "bytes 4-11/12", opens: 1},
		{part: "bytes=4-99", times: 100, status: 206, body: "efgh+1-end", contentRange: "bytes 4-13/14", opens: 1},
		{part: "bytes=4-5", times: 1, status: 206, body: "ef", contentRange: "bytes 4-5/14", opens: 2},
		{part: "bytes=4-11", times: 1, status: 206, body: "efgh+1-e", contentRange: "bytes 4-11/14", opens: 2}, // the old end
		{part: "bytes=-6", times: 1, status: 206, body: "+1-end", contentRange: "bytes 8-13/14", opens: 2},
		{part: "bytes=10-", times: 1, status: 206, body: "-end", contentRange: "bytes 10-13/14", opens: 2}, // in the former tail
		{part: "bytes=0-", times: 1, status: 206, body: "abcdefgh+1-end", contentRange: "bytes 0-13/14", opens: 2},
		{part: "bytes=4-", header: "If-Range", value: `"8"`, times: 1, status: 200, body: "abcdefgh+1-end", opens: 2},
		{part: "bytes=4-", header: "If-Match", value: `"8"`, times: 1, status: 412, opens: 1},
		{part: "bytes=4-", header: "If-None-Match", value: `"10"`, times: 1, status: 304, opens: 1},
	} {
		g := &growing{text: "abcdefgh", times: c.times}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Range", c.part)
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		recorder := httptest.NewRecorder()
		status := 0
		var p *problem.Error
		if err := s.Send(recorder, r, g, nil); err == nil {
			status = recorder.Code
		} else if errors.As(err, &p) {
			status = p.Status
		}
		body, contentRange := recorder.Body.String(), recorder.Header().Get("Content-Range")
		if status != c.status || body != c.body || contentRange != c.contentRange || g.opens != c.opens {
			t.Errorf("%s %s, grown %d times: status %d, %q, %q, opened %d times; want %d, %q, %q, %d", c.part, c.header, c.times,
				status, body, contentRange, g.opens, c.status, c.body, c.contentRange, c.opens)
		}
	}
}
