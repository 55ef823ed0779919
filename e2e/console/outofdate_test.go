package console_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// TestOutOfDate: an open page says that it is out of date as long as it cannot be updated because the console is
// gone or cannot read the store.
func TestOutOfDate(t *testing.T) {
	s := newSite(t, nil)
	var away atomic.Bool
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		s.console.ServeHTTP(w, r)
	}))
	defer web.Close()
	defer web.CloseClientConnections()
	s.origin = web.URL
	demo := &demo{t: t, store: s.store}
	publish := func(key string) {
		demo.publish("prices", 100, []moment{{time.Now(), []*feed.Entity{{
			ContentID: key, Operation: feed.Put, ContentType: "text/plain", ContentLocation: key, Body: []byte("new"),
		}}}})
	}
	const says = `document.querySelector("main").innerText.includes("This page is out of date")`
	b := s.open(t, desktop)
	b.visit("/feed?name=prices")
	publish("here")
	b.wait(`document.querySelector("main").innerText.includes("here")`)
	if evaluate[bool](b, says) {
		t.Error("a page that is updated says that it is out of date")
	}

	away.Store(true)
	publish("missed")
	b.wait(says)
	away.Store(false)
	publish("back")
	b.wait(`document.querySelector("main").innerText.includes("back")`)
	b.wait("!" + says)

	away.Store(true)
	web.CloseClientConnections()
	b.wait(says)
}
