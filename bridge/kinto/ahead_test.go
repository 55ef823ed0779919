package kinto

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/kintotest"
)

// TestReadAhead: the second page is requested before the rows of the first arrive.
func TestReadAhead(t *testing.T) {
	fake := kintotest.NewFake(t)
	fake.Page = 2
	r := newRigOf(t, fake.NewCollection(t))
	r.fill(0, 7)
	r.client.IdleTimeout = 2 * time.Second // ends a page that is never read, if the test fails
	r.client.HTTP = &http.Client{Transport: &ahead{t: t, second: make(chan struct{})}}
	r.configure = func(c *Config) { c.Attempts = 1 }
	r.run()
	r.check()
}

// An ahead is a transport that holds back the rows of the first page until the second page is
// requested.
type ahead struct {
	t      *testing.T
	lists  int
	second chan struct{}
}

func (a *ahead) RoundTrip(q *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(q)
	if err != nil || !isList(q) {
		return resp, err
	}
	switch a.lists++; a.lists {
	case 1:
		resp.Body = &waiting{ReadCloser: resp.Body, t: a.t, until: a.second, end: q.Context().Done()}
	case 2:
		close(a.second)
	}
	return resp, nil
}

// A waiting is a body whose reads block until one of the two channels is closed.
type waiting struct {
	io.ReadCloser
	t          *testing.T
	until, end <-chan struct{}
}

func (w *waiting) Read(p []byte) (int, error) {
	select {
	case <-w.until:
	case <-w.end:
		w.t.Error("the second page was not requested")
	}
	return w.ReadCloser.Read(p)
}
