package consumer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

// TestViolations reads feeds that violate the specification.
func TestViolations(t *testing.T) {
	link := func(number int, change func(l *feed.Links)) func(int, *feed.Links) {
		return func(n int, l *feed.Links) {
			if n == number {
				change(l)
			}
		}
	}
	const three = "a0 b1 | c1 d2 | e2 f3"
	tests := []struct {
		name  string
		feed  string
		links func(int, *feed.Links)
		start Start
		want  string // entities before the error
		err   error
		url   string // URL in the error
	}{
		{name: "next of the older page is another, seen by the crawl", feed: three, start: Beginning(),
			links: link(1, func(l *feed.Links) { l.Next = pageURL + "3" }), err: ErrLinks, url: pageURL + "1"},
		{name: "next of the older page is missing", feed: three, start: Beginning(),
			links: link(1, func(l *feed.Links) { l.Next = "" }), err: ErrLinks, url: pageURL + "1"},
		{name: "prev of the newer page is another, seen by the walk", feed: three, start: at("b1", 1),
			links: link(2, func(l *feed.Links) { l.Prev = pageURL + "3" }), err: ErrLinks, url: pageURL + "2"},
		{name: "prev of the newer page is missing: allowed", feed: three, start: at("b1", 1), want: "c d e f",
			links: link(2, func(l *feed.Links) { l.Prev = "" })},
		{name: "self is another page", feed: three, start: at("b1", 1),
			links: link(2, func(l *feed.Links) { l.Self = pageURL + "7" }), err: ErrLinks, url: pageURL + "2"},
		{name: "self is missing", feed: three, start: Beginning(),
			links: link(3, func(l *feed.Links) { l.Self = "" }), err: ErrLinks, url: feedURL},
		{name: "loop back", feed: "a0 | b0 | c0", start: Beginning(), links: func(n int, l *feed.Links) {
			l.Prev, l.Next = pageURL+fmt.Sprint((n+1)%3+1), pageURL+fmt.Sprint(n%3+1)
		}, err: ErrLoop},
		{name: "loop forward", feed: "a0 | b0 | c0", start: at("a0", 1), links: func(n int, l *feed.Links) {
			l.Prev, l.Next = pageURL+fmt.Sprint((n+1)%3+1), pageURL+fmt.Sprint(n%3+1)
		}, want: "b c", err: ErrLoop},
		{name: "page is its own neighbour", feed: "a0", start: at("a0", 1), links: func(_ int, l *feed.Links) {
			l.Prev, l.Next = l.Self, l.Self
		}, err: ErrLoop, url: pageURL + "1"},
		{name: "time goes back within a page", feed: "a0 b5 c4", start: Beginning(), want: "a b", err: ErrTimeOrder, url: pageURL + "1"},
		{name: "time goes back between entities of two pages", feed: "a0 b5 | c4 d6", start: Beginning(), want: "a b", err: ErrTimeOrder, url: pageURL + "2"},
		{name: "time goes back between pages, seen by the crawl", feed: "a0 b9 | c4", start: Beginning(), err: ErrTimeOrder, url: pageURL + "2"},
		{name: "time goes back between pages, seen by the walk", feed: "a0 b9 | c4", start: at("a0", 1), want: "b", err: ErrTimeOrder, url: pageURL + "2"},
		{name: "time goes back after the position", feed: "a5 b4", start: at("a5", 1), err: ErrTimeOrder, url: pageURL + "1"},
		{name: "time goes back before the position", feed: "a5 b4 c5", start: at("c5", 0), err: ErrTimeOrder, url: pageURL + "1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFeed(test.feed)
			f.links = test.links
			inWorld(t, f, func(t *testing.T, w *world) {
				got, err := ids(t, w.newClient(Config{}), test.start)
				if got != test.want || !errors.Is(err, test.err) {
					t.Errorf("got %q and error %v, want %q and %v", got, err, test.want, test.err)
				}
				if Retryable(err) {
					t.Errorf("error is retryable: %v", err)
				}
				var at *PageError
				if test.url != "" && (!errors.As(err, &at) || at.URL != test.url) {
					t.Errorf("error is about %v, want %s: %v", at, test.url, err)
				}
			})
		})
	}
}

// TestLinkForms reads links in all forms that servers use (RFC 8288).
func TestLinkForms(t *testing.T) {
	f := newFeed("a0 | b1 | c2")
	forms := []string{
		`</feed/1>; rel=self, </feed/2>;rel="next"`,
		`<2>; rel="self last"; title="a, b", <1>; rel=prev; x=y, <http://feed.test/feed/3>;   rel=Next`,
		`<//feed.test/feed/3>;rel=self,<../feed/2>;rel=prev`,
	}
	f.intercept = func(rw http.ResponseWriter, r *http.Request, number int) bool {
		f.mu.Lock()
		body, header, _ := f.page(number)
		f.mu.Unlock()
		header["Link"] = []string{forms[number-1]}
		for name, values := range header {
			rw.Header()[name] = values
		}
		_, _ = rw.Write(body)
		return true
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		want(t, w.newClient(Config{}), Beginning(), "a b c")
	})
}

// TestWrongResponses distinguishes responses that are not pages from malformed pages.
func TestWrongResponses(t *testing.T) {
	const boundary = "boundary-1"
	good := func(body string) string {
		return "--boundary-1\r\nContent-Type: text/plain\r\nContent-ID: a\r\nOperation-Type: http-equiv=PUT\r\n" +
			"Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n" + body
	}
	tests := []struct {
		name   string
		header map[string]string
		body   string
		err    error
		part   int
		status int
	}{
		{name: "part that was not requested", body: good("x") + "\r\n--boundary-1--", status: http.StatusPartialContent, part: -2},
		{name: "wrong content type", header: map[string]string{"Content-Type": "text/html"}, body: "<html>", err: ErrMediaType, part: -1},
		{name: "another site", header: map[string]string{"Content-Type": "text/html", "Link": "", "Last-Modified": "never"}, body: "<html>", err: ErrMediaType, part: -1},
		{name: "no boundary", header: map[string]string{"Content-Type": "multipart/mixed"}, err: ErrMediaType, part: -1},
		{name: "no Last-Modified", header: map[string]string{"Last-Modified": ""}, err: feed.ErrMissingHeader, part: -1},
		{name: "bad Last-Modified", header: map[string]string{"Last-Modified": "yesterday"}, err: feed.ErrInvalidHeader, part: -1},
		{name: "bad link", header: map[string]string{"Link": "<mailto:a@b>; rel=self"}, err: ErrLinks, part: -1},
		{name: "no parts", body: "--boundary-1--\r\n", err: page.ErrNoParts, part: -1},
		{name: "entity without Content-ID", body: good("x") + "\r\n" +
			strings.Replace(good("x"), "Content-ID: a\r\n", "", 1) + "\r\n--boundary-1--", err: feed.ErrMissingHeader, part: 1},
		{name: "malformed header", body: "--boundary-1\r\nnonsense\r\n\r\nx\r\n--boundary-1--", err: page.ErrMalformedHeader, part: 0},
		{name: "unknown encoding", header: map[string]string{"Content-Encoding": "br"}, err: ErrMediaType, part: -2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			handler := func(rw http.ResponseWriter, r *http.Request) {
				header := map[string]string{
					"Content-Type": page.ContentType(boundary), "Last-Modified": feed.FormatTime(epoch),
					"Link": "<" + pageURL + "1>; rel=self",
				}
				for name, value := range test.header {
					header[name] = value
				}
				for name, value := range header {
					if value != "" {
						rw.Header().Set(name, value)
					}
				}
				if test.status != 0 {
					rw.WriteHeader(test.status)
				}
				_, _ = rw.Write([]byte(test.body))
			}
			inWorld(t, http.HandlerFunc(handler), func(t *testing.T, w *world) {
				_, err := ids(t, w.newClient(Config{}), Latest())
				var status *StatusError
				if test.status != 0 {
					if !errors.As(err, &status) || status.StatusCode != test.status {
						t.Errorf("error is %v, want status %d", err, test.status)
					}
					return
				}
				if !errors.Is(err, test.err) || Retryable(err) {
					t.Fatalf("error is %v, want %v", err, test.err)
				}
				var at *PageError
				if test.part >= -1 && (!errors.As(err, &at) || at.Part != test.part) {
					t.Errorf("error is %v, want one about part %d", err, test.part)
				}
				if n := len(w.requests()); n != 1 {
					t.Errorf("%d requests", n)
				}
			})
		})
	}
}

// TestEndlessPrev: a feed whose prev links never end is an error.
func TestEndlessPrev(t *testing.T) {
	inWorld(t, newFeed("a0 | b0 | c0 | d0"), func(t *testing.T, w *world) {
		if _, err := ids(t, w.newClient(Config{MaxPages: 3}), Beginning()); !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
		if n := len(w.requests()); n != 3 {
			t.Errorf("%d requests", n)
		}
		if got, err := ids(t, w.newClient(Config{MaxPages: 4}), Beginning()); err != nil || len(got) == 0 {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// TestLoopWithoutPrev: a loop that does not include the first page is detected, too.
func TestLoopWithoutPrev(t *testing.T) {
	f := newFeed("a0 | b0 | c0 | d0")
	f.links = func(number int, l *feed.Links) {
		l.Prev = ""
		if number == 4 {
			l.Next = pageURL + "2"
		}
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		if _, err := ids(t, w.newClient(Config{}), at("a0", 1)); !errors.Is(err, ErrLoop) {
			t.Error(err)
		}
		if n := len(w.requests()); n > 12 {
			t.Errorf("%d requests", n)
		}
	})
}
