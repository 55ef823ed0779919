package couchdb

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/feed"
)

func TestRevision(t *testing.T) {
	const history = `"_revisions":{"start":3,"ids":["c","b","a"]}`
	related := "--x\r\nContent-Type: application/json\r\n\r\n" + `{"_id":"d","_rev":"3-c",` + history + "}\r\n--x\r\n\r\n" + `{"_revisions":0}` + "\r\n--x--"
	p := bridge.Version{ID: "d", Rev: "3-c"}
	var r RevisionReader
	for _, c := range []struct {
		body, contentType, contentID string
		err                          error
	}{
		{body: `{"_id":"d","_rev":"3-c","x":{"_revisions":1},` + history + `,"_attachments":{}}`},
		{body: ` {` + history + `}`},
		{body: `{"_deleted":true,` + history + `}`, contentID: p.ContentIDOver("3-d")},
		{body: related, contentType: `multipart/related; boundary="x"`},
		{body: ``, err: ErrNoAncestry},
		{body: `[]`, err: ErrNoAncestry},
		{body: `{"_id":"d","_rev":"3-c"}`, err: ErrNoAncestry},
		{body: `{"_revisions":{"start":2,"ids":["b","a"]}}`, err: ErrNoAncestry},
		{body: `{"_id":"d","_rev":"3-c",`, err: io.ErrUnexpectedEOF},
		{body: related[:3], contentType: `multipart/related; boundary="x"`, err: io.EOF},
	} {
		e := p.Entity(feed.Put, "application/json")
		if c.contentType != "" {
			e.ContentType = c.contentType
		}
		if c.contentID != "" {
			e.ContentID = c.contentID
		}
		rev, ancestors, err := r.Revision(e, iotest.OneByteReader(strings.NewReader(c.body)))
		switch {
		case !errors.Is(err, c.err):
			t.Errorf("%q: error %v, want %v", c.body, err, c.err)
		case c.err == nil && (rev != "3-c" || !slices.Equal(ancestors, []string{"2-b", "1-a"})):
			t.Errorf("%q: revision %q with ancestors %q", c.body, rev, ancestors)
		}
	}
	for name, spoil := range map[string]func(e *feed.Entity){
		"other name":  func(e *feed.Entity) { e.ContentID = "<1@example.com>" },
		"longer name": func(e *feed.Entity) { e.ContentID = "<d@3-cc>" },
		"no ETag":     func(e *feed.Entity) { e.Header = nil },
		"no location": func(e *feed.Entity) { e.ContentLocation = "" },
	} {
		e := p.Entity(feed.Put, "application/json")
		spoil(e)
		if rev, ancestors, err := r.Revision(e, strings.NewReader("{}")); rev != "" || ancestors != nil || err != nil {
			t.Errorf("%s: revision %q with ancestors %q, %v", name, rev, ancestors, err)
		}
	}
}
