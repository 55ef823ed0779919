package publish_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/input"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/publish"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
)

// A roundTripper is a server without a network, for tests in fake time.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newClient(t *testing.T, transport http.RoundTripper) *publish.Client {
	t.Helper()
	c, err := publish.New(publish.Config{
		URL: "http://data.example/feeds/things", HTTPClient: &http.Client{Transport: transport}, Attempts: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answer(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// A request whose outcome is not known is repeated with the same Content-IDs, after the delay for
// which the server asks.
func TestClientRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ids []string
		begun := time.Now()
		p := newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			for e, err := range input.Multipart(r.Body, r.Header.Get("Content-Type"), page.ReaderOptions{}) {
				if err != nil {
					t.Error(err)
					break
				}
				ids = append(ids, e.ContentID)
			}
			switch len(ids) {
			case 2:
				return nil, errors.New("connection reset")
			case 4:
				busy := answer(http.StatusServiceUnavailable, "busy")
				busy.Header.Set("Retry-After", "45")
				return busy, nil
			}
			return answer(http.StatusOK, `{"published":1,"duplicates":1,"page":"p","contentId":"c"}`), nil
		}))
		got, err := p.Publish(t.Context(),
			&feed.Entity{Operation: feed.Put, ContentType: "text/plain", Body: []byte("a"), ContentID: "given"},
			&feed.Entity{Operation: feed.Put, ContentType: "text/plain", Body: []byte("b")})
		want := publish.Receipt{Published: 1, Duplicates: 1, Page: "p", ContentID: "c"}
		if err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		if len(ids) != 6 || ids[0] != "given" || ids[1] == "" || ids[1] != ids[3] || ids[3] != ids[5] {
			t.Errorf("Content-IDs of the requests: %q", ids)
		}
		if waited := time.Since(begun); waited < 45*time.Second || waited > 46*time.Second {
			t.Errorf("waited %v, but the server asked for 45 s", waited)
		}
	})
}

func TestClientGivesUp(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer func() (*http.Response, error)
		tries  int
		want   string
	}{
		{"network", func() (*http.Response, error) { return nil, errors.New("connection refused") }, 4, "connection refused"},
		{"503", func() (*http.Response, error) { return answer(503, ""), nil }, 4, "post http://data.example/feeds/things: status 503"},
		{"400", func() (*http.Response, error) {
			return answer(400, `{"title":"Bad Request","detail":"no such operation"}`), nil
		}, 1, "no such operation"},
		{"redirect", func() (*http.Response, error) {
			r := answer(307, "")
			r.Header.Set("Location", "http://elsewhere.example/")
			return r, nil
		}, 1, "status 307"},
		{"no receipt", func() (*http.Response, error) { return answer(200, "<html>"), nil }, 1, "read response"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				p := newClient(t, roundTripper(func(*http.Request) (*http.Response, error) {
					tries++
					return test.answer()
				}))
				_, err := p.Publish(t.Context(), &feed.Entity{Operation: feed.Put, ContentType: "text/plain"})
				if err == nil || !strings.Contains(err.Error(), test.want) || tries != test.tries {
					t.Errorf("%d tries, error %v; want %d, %q", tries, err, test.tries, test.want)
				}
			})
		})
	}
}

// A batch that is begun before the previous batch has ended is not published ahead of the previous
// one.
func TestClientKeepsOrder(t *testing.T) {
	tries := 0
	p := newClient(t, roundTripper(func(*http.Request) (*http.Response, error) {
		if tries++; tries == 1 {
			return answer(http.StatusForbidden, ""), nil
		}
		return answer(http.StatusOK, `{"published":1}`), nil
	}))
	target := p.Ordered()
	for n := range 2 {
		wait, err := target.Begin(t.Context(), []*feed.Entity{{Operation: feed.Put, ContentType: "text/plain"}}, false)
		if n == 0 && err == nil {
			_, err = wait()
		}
		if err == nil || !strings.Contains(err.Error(), "status 403") {
			t.Errorf("batch %d: error %v", n+1, err)
		}
	}
	if tries != 1 {
		t.Errorf("%d requests: a batch was sent after one that failed", tries)
	}
}

// Entities, one of them with a stream, and credentials arrive at a real server.
func TestServer(t *testing.T) {
	handler, err := server.New(memory.New(), server.Config{
		Writable: true, WriteAuth: []server.Credential{{Username: "ann", Password: "s:cret"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	defer web.Close()
	defer handler.Close(context.Background())
	p, err := publish.New(publish.Config{
		URL: web.URL + "/feeds/things", Attempts: 1, Credentials: consumer.Credentials{Username: "ann", Password: "s:cret"},
	})
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("large ", 1<<17)
	entities := []*feed.Entity{
		{Operation: feed.Put, ContentType: "text/plain", ContentLocation: "a", Body: []byte("small")},
		{Operation: feed.Delete, ContentType: "text/plain", ContentLocation: "b"},
		{
			Operation: feed.Put, ContentType: "text/plain", ContentLocation: "c", ContentID: "<c@test>",
			Header: []feed.Field{{Name: "Content-Language", Value: "rm"}}, Stream: strings.NewReader(large), Size: -1,
		},
	}
	receipt, err := p.Publish(t.Context(), entities...)
	if err != nil || receipt.Published != 3 || receipt.ContentID != "<c@test>" {
		t.Fatalf("receipt %+v, %v", receipt, err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	client, err := consumer.New(consumer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for e, err := range client.Entities(t.Context(), web.URL+"/feeds/things", consumer.Beginning()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s %d %v", e.Operation, e.Key(), len(e.Body), e.Header))
	}
	want := []string{"PUT a 5 []", "DELETE b 0 []", fmt.Sprintf("PUT c %d [{Content-Language rm}]", len(large))}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
}
