package couchdb

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"

	"github.com/feedctl/feedctl/feed"
)

const mediaJSON = "application/json"

// A pair names one revision of one document: what the feed holds once.
type pair struct{ id, rev string }

// contentID returns the Content-ID of a pair: "<ID@REV>", both percent-encoded. If
// that is longer than a header may be, ID is "sha256:" and the SHA-256 of the id in
// hex; no encoded id has a colon.
func (p pair) contentID() string {
	id, rev := feed.EncodeKey(p.id), feed.EncodeKey(p.rev)
	if len(id)+len(rev)+len("<@>") > feed.MaxContentID {
		sum := sha256.Sum256([]byte(p.id))
		id = "sha256:" + hex.EncodeToString(sum[:])
	}
	return "<" + id + "@" + rev + ">"
}

// contentIDOver returns the Content-ID of a pair that wins again over a revision that
// was published after it.
func (p pair) contentIDOver(rev string) string {
	id := p.contentID()
	return id[:len(id)-1] + overMark + feed.EncodeKey(rev) + ">"
}

// overMark is behind the pair's own name in a Content-ID of one that wins again.
const overMark = ";after="

// names reports whether a Content-ID is one of the pair's.
func (p pair) names(contentID string) bool {
	id := p.contentID()
	return contentID == id || strings.HasPrefix(contentID, id[:len(id)-1]+overMark)
}

// entity returns the entity of a document without its body.
func (p pair) entity(op feed.Operation) *feed.Entity {
	return &feed.Entity{
		ContentID:       p.contentID(),
		Operation:       op,
		ContentType:     mediaJSON,
		ContentLocation: feed.EncodeKey(p.id),
		Header:          []feed.Field{{Name: etag, Value: `"` + p.rev + `"`}},
	}
}

const etag = "ETag"

// pairOf returns the pair that an entity in a feed is about; false if it is not the
// entity of a document.
func pairOf(location, tag string) (pair, bool) {
	rev, opened := strings.CutPrefix(tag, `"`)
	rev, closed := strings.CutSuffix(rev, `"`)
	if !opened || !closed || location == "" || rev == "" {
		return pair{}, false
	}
	return pair{(&feed.Entity{ContentLocation: location}).Key(), rev}, true
}

// jsonEntity returns the entity of a document whose text is in memory.
func jsonEntity(d document, keepAttachments bool) *feed.Entity {
	op := feed.Put
	if d.deleted {
		op = feed.Delete
	}
	e := pair{d.id, d.rev}.entity(op)
	switch {
	case d.deleted && d.bare && !d.history:
		// A tombstone that says nothing more has no body.
	case keepAttachments:
		e.Body = d.text
	default:
		e.Body = d.withoutAttachments()
	}
	return e
}

// streamEntity returns the entity of a document that comes as a stream, such as a
// multipart/related one.
func streamEntity(p pair, op feed.Operation, contentType string, body io.Reader, size int64) *feed.Entity {
	e := p.entity(op)
	e.ContentType, e.Stream, e.Size = contentType, body, size
	return e
}
