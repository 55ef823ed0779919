package kinto

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/content"
	"github.com/feedctl/feedctl/sink/internal/spool"
	"github.com/feedctl/feedctl/sink/patch"
)

// A chunk is a part of a batch that is written in one request, and has its own position.
type chunk struct {
	name    string // random
	changes []*change
	byID    map[string]*change
	size    int64
	through feed.Position // after its last entity; zero if that has no Content-ID
}

// last returns the last change of each record.
func (s *chunk) last() []*change {
	changes := make([]*change, 0, len(s.byID))
	for _, c := range s.changes {
		if s.byID[c.id] == c {
			changes = append(changes, c)
		}
	}
	return changes
}

// Limits of a chunk: the number of changes, if the server does not limit it, and the bytes of their
// records. A larger record is a chunk of its own.
const (
	maxChunk      = 100
	maxChunkBytes = 1 << 20
)

// maxRecord is the maximum size of a record, in bytes. A record is held in memory while it is being written.
const maxRecord = 48 << 20

// maxDigest is the maximum size, in bytes, of a record that is recognized by its digest. Servers may send
// such a record with six times as many bytes, because of escapes.
const maxDigest = 8 << 20

// A change is a record to be written or deleted.
type change struct {
	key, id      string
	contentID    string
	lastModified time.Time
	contentType  string
	about        spool.Piece // the members "contentType" and "headers" of metaMember
	body         spool.Piece
	form         form
	deleted      bool
	// patched means that the result would be different if the entity were applied again.
	patched bool
}

func (t *target) Apply(ctx context.Context, e *feed.Entity) error {
	key := e.Key()
	if key == "" {
		return sink.ErrNoKey
	}
	c := &change{key: key, id: recordID(key), contentID: e.ContentID, lastModified: e.LastModified, contentType: e.ContentType}
	stamp := StampOf(etagOf(e))
	switch e.Operation {
	case feed.Delete:
		if stamp != 0 && validID.MatchString(key) {
			c.id = key // a tombstone of Kinto
		}
		c.deleted = true
		t.stage(c, e)
		return nil
	case feed.Put, "":
		return t.put(c, e, stamp)
	case feed.Patch:
		if err := t.patch(ctx, c, e); err != nil {
			return &patch.Error{Key: key, ContentID: e.ContentID, Err: err}
		}
		return nil
	}
	return fmt.Errorf("unknown operation %q", e.Operation)
}

// put stages a body.
func (t *target) put(c *change, e *feed.Entity, stamp int64) error {
	whole, stream, size, err := t.body.Read(e)
	if err != nil {
		return err
	}
	if c.about, err = t.spool.Put(appendAbout(nil, e)); err != nil {
		return err
	}
	if stream != nil {
		if c.body, err = t.spool.Copy(io.LimitReader(stream, maxRecord+1)); err == nil && c.body.Size <= maxRecord {
			err = content.CheckSize(size, c.body.Size)
		}
		if err != nil {
			return err
		}
	} else {
		own, ok := origin(c.key, stamp, whole)
		if ok {
			c.id = c.key
		}
		if ok && storable(own) {
			c.form, whole = asIs, own
		} else {
			c.form = formOf(e.ContentType, whole)
		}
		if c.body, err = t.spool.Put(whole); err != nil {
			return err
		}
	}
	if n := c.size(); n > maxRecord {
		return &sink.TooLargeError{Key: c.key, ContentID: c.contentID, Size: -1, Limit: maxRecord, Of: "a Kinto record"}
	}
	t.stage(c, e)
	return nil
}

// size returns the approximate size of the record of a change, in bytes.
func (c *change) size() int64 {
	n := c.about.Size + c.body.Size
	switch c.form {
	case wrapped:
		n += c.body.Size / 3 // base64
	case asBoth:
		n += c.body.Size
	}
	return n
}

// etagOf returns the ETag field of an entity, or an empty string.
func etagOf(e *feed.Entity) string {
	for _, f := range e.Header {
		if strings.EqualFold(f.Name, "ETag") {
			return f.Value
		}
	}
	return ""
}

// StampOf returns the last_modified in the ETag of an entity from package bridge/kinto, or 0.
func StampOf(etag string) int64 {
	if len(etag) <= 2 || etag[0] != '"' {
		return 0
	}
	stamp, _ := strconv.ParseInt(strings.Trim(etag, `"`), 10, 64) // 0 if it is not a number
	return max(stamp, 0)
}

// origin returns a record as it came from Kinto, without its stamp. It returns false for other
// bodies.
func origin(key string, stamp int64, body []byte) ([]byte, bool) {
	var r struct {
		ID    string `json:"id"`
		Stamp int64  `json:"last_modified"`
	}
	if stamp == 0 || !validID.MatchString(key) || json.Unmarshal(body, &r) != nil || r.ID != key || r.Stamp != stamp {
		return nil, false
	}
	return withoutStamp(body), true
}

// patch stages a record changed by a PATCH. The content type and the headers remain those of the
// PUT.
func (t *target) patch(ctx context.Context, c *change, e *feed.Entity) error {
	delta, stream, _, err := t.body.Read(e)
	if err != nil {
		return err
	}
	if stream != nil {
		return patch.ErrTooLarge
	}
	was, err := t.current(ctx, c)
	if err != nil {
		return err
	}
	if was.contentID == e.ContentID && e.ContentID != "" {
		t.skip(e) // it has been applied
		return nil
	}
	body, err := patch.Apply(was.body, e.ContentType, delta)
	if err != nil {
		return err
	}
	c.id, c.contentType, c.patched = was.id, was.contentType, true
	if c.about, err = t.spool.Put(was.about); err != nil {
		return err
	}
	if c.body, err = t.spool.Put(body); err != nil {
		return err
	}
	c.form = formOf(was.contentType, body)
	t.stage(c, e)
	return nil
}

// A current is the state of a record that a patch changes.
type current struct {
	id          string
	contentID   string
	contentType string
	about       []byte
	body        []byte
}

// current returns a record as changed by the batch, or else as stored by the server.
func (t *target) current(ctx context.Context, c *change) (was current, err error) {
	staged, ok := t.last[c.id]
	switch {
	case !ok:
		err = t.retry(ctx, func(ctx context.Context) error {
			was, err = t.fetch(ctx, c.id)
			return err
		})
		return was, err
	case staged.deleted:
		return was, patch.ErrMissing
	case staged.body.Size > patch.MaxSize:
		return was, patch.ErrTooLarge
	}
	was = current{id: staged.id, contentType: staged.contentType}
	if was.about, err = t.spool.Append(nil, staged.about); err != nil {
		return was, err
	}
	was.body, err = t.spool.Append(nil, staged.body)
	return was, err
}

// fetch reads a record from the server.
func (t *target) fetch(ctx context.Context, id string) (was current, err error) {
	row, err := t.to.Record(ctx, id)
	var e *kinto.Error
	if errors.As(err, &e) && e.Missing() == "record" {
		return was, patch.ErrMissing
	}
	if err != nil {
		return was, err
	}
	m, body, err := contents(row.Data)
	if err != nil {
		return was, fmt.Errorf("read record %q: %w: %w", id, kinto.ErrMalformed, err)
	}
	if len(body) > patch.MaxSize {
		return was, patch.ErrTooLarge
	}
	if m == nil { // of another client
		m = &meta{ContentType: "application/json"}
	}
	if len(m.Headers) == 0 {
		m.Headers = json.RawMessage("{}")
	}
	was = current{id: id, contentID: m.ContentID, contentType: m.ContentType, body: body}
	was.about = append(jsonscan.AppendString([]byte(`"contentType":`), m.ContentType), `,"headers":`...)
	was.about = append(was.about, m.Headers...)
	return was, nil
}

// stage stages a change. If a chunk has several changes to a record, only the last is written. A
// record that depends on what the server had is changed only once in a chunk, so that each of its
// states has a position.
func (t *target) stage(c *change, e *feed.Entity) {
	s := t.lastChunk()
	size := c.size()
	var was *change
	if s != nil {
		was = s.byID[c.id]
	}
	if s == nil || was != nil && was.patched || was == nil && len(s.byID) == t.most || s.size > 0 && s.size+size > maxChunkBytes {
		s, was = t.addChunk(), nil
	}
	c.patched = c.patched && was == nil
	s.changes = append(s.changes, c)
	s.byID[c.id] = c
	s.size += size
	s.through = after(e)
	t.last[c.id] = c
}

// skip advances the position over an entity.
func (t *target) skip(e *feed.Entity) {
	s := t.lastChunk()
	if s == nil {
		s = t.addChunk()
	}
	s.through = after(e)
}

func (t *target) lastChunk() *chunk {
	if len(t.chunks) == 0 {
		return nil
	}
	return t.chunks[len(t.chunks)-1]
}

func (t *target) addChunk() *chunk {
	s := &chunk{name: rand.Text(), byID: map[string]*change{}}
	t.chunks = append(t.chunks, s)
	return s
}

// after returns the position after an entity, without its page.
func after(e *feed.Entity) feed.Position {
	if e.ContentID == "" {
		return feed.Position{}
	}
	return feed.Position{LastModified: e.LastModified, ContentID: e.ContentID}
}
