package couchdb

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/content"
	"github.com/feedctl/feedctl/sink/internal/spool"
	"github.com/feedctl/feedctl/sink/patch"
)

// A step is a part of a batch that is written as a whole, and has its own position.
// It consists of either revisions or changes.
type step struct {
	name      string // random
	revisions []revision
	changes   []*change
	alone     bool          // it is one change that is too large for the log
	through   feed.Position // after its last entity; zero if that has no Content-ID
}

// A revision is a document that is stored unchanged.
type revision struct {
	id, rev     string
	contentType string
	body        spool.Piece
}

func (r revision) name() (id, rev string) { return r.id, r.rev }

// A change is a document whose revision is assigned by the database.
type change struct {
	key, id      string
	contentID    string
	lastModified time.Time
	about        spool.Piece // the members "contentType" and "headers" of metaMember
	contentType  string
	deleted      bool
	patched      bool
	form         form
	body         spool.Piece // the entity's body, or the text of the members
	// Of documents from CouchDB: the value of _attachments, and the rest of the
	// multipart/related body after the document.
	attachments spool.Piece
	boundary    string
	rest        spool.Piece
	// whole means that body is the document of a revision. Such a change is not written, but may
	// be patched.
	whole bool
}

// maxInline is the size in bytes up to which attachments are sent as base64 within a
// document (protocol, "Upload Document with Attachments").
const maxInline = 64 << 10

// maxAdopted is the maximum size, in bytes, of a CouchDB document without its revisions, but with its inline
// attachments. The document is held in memory.
const maxAdopted = 16 << 20

// maxLogged is the maximum size of a document in the log, in bytes.
const maxLogged = 256 << 10

func (t *target) Apply(ctx context.Context, e *feed.Entity) error {
	key := e.Key()
	if key == "" {
		return sink.ErrNoKey
	}
	switch e.Operation {
	case feed.Put, feed.Delete, "":
		if rev := revisionOf(e); rev != "" {
			return t.origin(key, rev, e)
		}
		if e.Operation == feed.Delete {
			return t.remove(key, docID(key), e)
		}
		body, whole, err := t.keep(e)
		if err != nil {
			return err
		}
		return t.put(key, e, body, whole)
	case feed.Patch:
		if err := t.patch(ctx, key, e); err != nil {
			return &patch.Error{Key: key, ContentID: e.ContentID, Err: err}
		}
		return nil
	}
	return fmt.Errorf("unknown operation %q", e.Operation)
}

// keep spools the body of e. It also returns the bytes if the body is in memory.
func (t *target) keep(e *feed.Entity) (body spool.Piece, whole []byte, err error) {
	whole, stream, size, err := t.body.Read(e)
	if err != nil {
		return body, nil, err
	}
	if stream == nil {
		body, err = t.spool.Put(whole)
		return body, whole, err
	}
	body, err = t.spool.Copy(stream)
	if err == nil {
		err = content.CheckSize(size, body.Size)
	}
	return body, nil, err
}

// put stages a body that is in the spool; whole holds its bytes, if they are few.
func (t *target) put(key string, e *feed.Entity, body spool.Piece, whole []byte) error {
	c, err := t.newChange(key, docID(key), e)
	if err != nil {
		return err
	}
	c.body = body
	c.form = asAttachment
	if whole != nil {
		c.form, t.buf = formOf(t.json, t.buf[:0], e.ContentType, whole)
	}
	t.stage(c, e)
	return nil
}

func (t *target) newChange(key, id string, e *feed.Entity) (*change, error) {
	c := &change{key: key, id: id, contentID: e.ContentID, lastModified: e.LastModified, contentType: e.ContentType}
	about, err := t.spool.Put(appendAbout(nil, e))
	c.about = about
	return c, err
}

func (t *target) remove(key, id string, e *feed.Entity) error {
	c, err := t.newChange(key, id, e)
	if err != nil {
		return err
	}
	c.deleted, c.form = true, asMembers
	t.stage(c, e)
	return nil
}

// origin stages an entity whose ETag is a revision of CouchDB.
func (t *target) origin(key, rev string, e *feed.Entity) error {
	if e.Operation == feed.Delete && e.Stream == nil && len(e.Body) == 0 {
		id := key
		if !validID(key) {
			id = docID(key)
		}
		return t.remove(key, id, e)
	}
	body, whole, err := t.keep(e)
	if err != nil {
		return err
	}
	document, r := body, revision{rev: rev, contentType: e.ContentType, body: body}
	parts, isRelated, err := openRelated(&t.spool, e.ContentType, body)
	if err != nil {
		return err
	}
	if isRelated {
		document = parts.document
		if text, ok := inlined(whole, parts.boundary); ok {
			if document, err = t.spool.Put(text); err != nil {
				return err
			}
			parts, isRelated = related{}, false
			r.contentType, r.body = "application/json", document
		}
	}
	t.json.Reset(t.spool.Reader(document))
	found, err := couchdb.ReadMeta(t.json)
	switch {
	case err != nil || found.Rev != rev || !validID(found.ID):
		// Not from CouchDB, despite its ETag.
	case found.HasRevisions:
		r.id = found.ID
		return t.replicate(r, document, e)
	case document.Size > maxAdopted:
		t.log.Warn("document is too large to change, storing its JSON as an attachment; publish the feed with --revs to avoid this",
			"database", t.db.URL(), "id", found.ID, "rev", rev, "bytes", document.Size, "limit", maxAdopted)
	default:
		text, err := t.spool.Append(nil, document)
		if err != nil {
			return err
		}
		if own, attachments, ok := split(text, isRelated); ok {
			return t.adopt(key, found.ID, own, attachments, parts, e)
		}
	}
	if e.Operation == feed.Delete {
		return t.remove(key, docID(key), e)
	}
	return t.put(key, e, body, whole)
}

// adopt stages a CouchDB document without its revisions, as a change.
func (t *target) adopt(key, id string, own, attachments []byte, parts related, e *feed.Entity) error {
	c, err := t.newChange(key, id, e)
	if err != nil {
		return err
	}
	c.deleted = e.Operation == feed.Delete
	c.form, c.boundary, c.rest = asMembers, parts.boundary, parts.rest
	if c.body, err = t.spool.Put(own); err != nil {
		return err
	}
	if c.attachments, err = t.spool.Put(attachments); err != nil {
		return err
	}
	t.stage(c, e)
	return nil
}

// replicate stages a revision. Revisions do not depend on each other.
func (t *target) replicate(r revision, document spool.Piece, e *feed.Entity) error {
	c, err := t.newChange(r.id, r.id, e)
	if err != nil {
		return err
	}
	c.body, c.whole, c.deleted = document, true, e.Operation == feed.Delete
	s := t.lastStep()
	if s == nil || s.changes != nil {
		s = t.addStep()
	}
	s.revisions = append(s.revisions, r)
	s.through = after(e)
	t.last[r.id] = c
	return nil
}

// stage stages a change. If a step has several changes to a document, only the last is written.
func (t *target) stage(c *change, e *feed.Entity) {
	alone := t.size(c) > maxLogged || t.multipart(c)
	s := t.lastStep()
	if s == nil || s.revisions != nil || s.alone || alone {
		s = t.addStep()
		s.alone = alone
	}
	s.changes = append(s.changes, c)
	s.through = after(e)
	t.last[c.id] = c
}

func (t *target) lastStep() *step {
	if len(t.steps) == 0 {
		return nil
	}
	return t.steps[len(t.steps)-1]
}

func (t *target) addStep() *step {
	s := &step{name: rand.Text()}
	t.steps = append(t.steps, s)
	return s
}

// after returns the position after an entity, without its page.
func after(e *feed.Entity) feed.Position {
	if e.ContentID == "" {
		return feed.Position{}
	}
	return feed.Position{LastModified: e.LastModified, ContentID: e.ContentID}
}
