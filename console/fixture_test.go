package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	multipart "github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/storage"
)

// start is the time of the first entity in the feeds of the tests.
var start = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

// writeFeed writes a feed with the given pages, without the checks of a producer: it may contain entities that no
// publisher of feedctl would make. The last page is open. An entity without a time gets that of its page; pages are a
// minute apart.
func writeFeed(t testing.TB, store storage.Store, name string, pages ...[]feed.Entity) {
	t.Helper()
	prev := ""
	for i, entities := range pages {
		n := int64(i + 1)
		prev = writePage(t, store, &chain.Page{Feed: name, Number: n, Prev: prev, Settled: n - 1, Closed: i < len(pages)-1}, entities)
	}
}

// writePage writes a page and returns its digest.
func writePage(t testing.TB, store storage.Store, p *chain.Page, entities []feed.Entity) string {
	t.Helper()
	p.Boundary = fmt.Sprintf("boundary-of-page-%d", p.Number)
	var body []byte
	for i, e := range entities {
		if e.LastModified.IsZero() {
			e.LastModified = start.Add(time.Duration(p.Number-1) * time.Minute)
		}
		var err error
		if body, err = multipart.AppendPart(body, p.Boundary, e.AppendHeader(nil), e.Body); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			p.First = e.LastModified
		}
		p.Last, p.LastContentID = e.LastModified, e.ContentID
	}
	p.Entities = len(entities)
	if p.Closed {
		body = multipart.AppendClose(body, p.Boundary)
	}
	sum := sha256.Sum256(body)
	p.SHA256 = hex.EncodeToString(sum[:])
	createPage(t, store, p, storage.Bytes(body))
	return p.Digest()
}

func createPage(t testing.TB, store storage.Store, p *chain.Page, body storage.Body) {
	t.Helper()
	meta, err := p.Meta()
	if err == nil {
		_, err = store.Create(context.Background(), layout.FeedPage(p.Feed, p.Number), meta, body)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// put returns a PUT of JSON.
func put(id, key, body string) feed.Entity {
	return feed.Entity{ContentID: id, Operation: feed.Put, ContentType: "application/json", ContentLocation: feed.EncodeKey(key), Body: []byte(body)}
}

// entityPath returns the path of the page of an entity.
func entityPath(feed string, n, i int64, more ...string) string {
	path := fmt.Sprintf("/entity?feed=%s&n=%d&i=%d", url.QueryEscape(feed), n, i)
	for _, m := range more {
		path += "&" + m
	}
	return path
}

// shows returns the text of a page, or fails the test.
func shows(t testing.TB, c *Console, path string, status int) string {
	t.Helper()
	w := get(c, path)
	if w.Code != status {
		t.Fatalf("GET %s: status %d, want %d\n%s", path, w.Code, status, w.Body)
	}
	return w.Body.String()
}

// expect fails the test unless a page contains all of the given texts.
func expect(t testing.TB, path, html string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !bytes.Contains([]byte(html), []byte(text)) {
			t.Errorf("%s does not have %q:\n%.4000s", path, text, html)
		}
	}
}
