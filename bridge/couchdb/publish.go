package couchdb

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
)

const mediaJSON = "application/json"

// maxCut is the maximum size of a document from which attachments are removed, in bytes. To remove
// them, the document must be in memory. CouchDB's own limit for documents is 8 MB by default.
const maxCut = 16 << 20

// publishWant publishes one revision, or what replaces it.
func (s *run) publishWant(ctx context.Context, w *want) error {
	switch {
	case w.older:
		return s.publishReturned(ctx, w.Version)
	case w.chunk == nil:
		doc := couchdb.Doc{Meta: w.row.Meta, ContentType: mediaJSON, Body: w.row.Doc}
		return s.publishBody(ctx, w.Version, w.ContentID(), &doc)
	}
	f, err := w.chunk.next(ctx)
	if f.read != nil {
		defer close(f.read)
	}
	switch {
	case err != nil:
		return fmt.Errorf("read document %q, revision %q: %w", w.ID, w.Rev, err)
	case f.failed:
		return s.publishAgain(ctx, w.Version)
	case errors.Is(f.doc.Err, couchdb.ErrNotFound):
		return s.publishSuccessors(ctx, w.Version)
	}
	err = s.publishDoc(ctx, w.Version, w.ContentID(), f.doc)
	if source := (*sourceError)(nil); errors.As(err, &source) { // its node is unavailable, or its stream was truncated
		return s.publishAgain(ctx, w.Version)
	}
	return err
}

// publishDoc publishes a fetched document, and closes its body.
func (s *run) publishDoc(ctx context.Context, p bridge.Version, contentID string, doc *couchdb.Doc) (err error) {
	if doc.Err != nil && couchdb.Retryable(doc.Err) {
		return &sourceError{doc.Err}
	}
	if doc.Err != nil {
		return s.reject(ctx, bridge.Quarantined{ID: p.ID, Rev: p.Rev, Reason: "source does not send it: " + doc.Err.Error()})
	}
	if doc.Body != nil {
		// Bytes in memory remain valid after Close.
		defer func() { err = errors.Join(err, doc.Body.Close()) }()
	}
	return s.publishBody(ctx, p, contentID, doc)
}

// publishBody publishes a document, or puts it into quarantine.
func (s *run) publishBody(ctx context.Context, p bridge.Version, contentID string, doc *couchdb.Doc) error {
	s.bridge.core.Meter.Count(func(n *bridge.Progress) { n.Read++ })
	e, err := s.entity(p, doc)
	if err == nil {
		e.ContentID = contentID
		err = e.Check(true)
	}
	if err != nil {
		return s.reject(ctx, bridge.Quarantined{ID: p.ID, Rev: p.Rev, Reason: err.Error()})
	}
	err = s.Add(ctx, e)
	if broken, ok := errors.AsType[*bridge.StreamError](err); ok {
		if errors.Is(err, bridge.ErrTooLarge) || errors.Is(err, bridge.ErrNotUTF8) {
			return s.reject(ctx, bridge.Quarantined{ID: p.ID, Rev: p.Rev, Reason: err.Error()})
		}
		return &sourceError{broken.Err}
	}
	return err
}

// entity returns the entity of a document. The error is a reason for quarantine.
func (s *run) entity(p bridge.Version, doc *couchdb.Doc) (*feed.Entity, error) {
	limit := s.bridge.config.MaxDocument
	if doc.Body != nil && limit > 0 && doc.Body.Size() > limit {
		return nil, fmt.Errorf("%w of %d bytes: it has %d", bridge.ErrTooLarge, limit, doc.Body.Size())
	}
	op := feed.Put
	if doc.Deleted {
		op = feed.Delete
	}
	e := p.Entity(op, doc.ContentType)
	keep := s.bridge.config.Attachments != None
	switch {
	case doc.Stream != nil:
		e.Stream, e.Size = doc.Stream, -1
		return e, nil
	case doc.ContentType != mediaJSON && doc.Body.Bytes() != nil:
		e.Body = doc.Body.Bytes()
		return e, nil
	case doc.Body.Bytes() == nil && (keep || !doc.HasAttachments || doc.ContentType != mediaJSON):
		e.Stream, e.Size = doc.Body.Reader(), doc.Body.Size()
		return e, nil
	}
	text := doc.Body.Bytes()
	if text == nil {
		if doc.Body.Size() > maxCut {
			return nil, fmt.Errorf("document has %d bytes, more than the limit of %d for removing attachments", doc.Body.Size(), maxCut)
		}
		var err error
		if text, err = io.ReadAll(doc.Body.Reader()); err != nil {
			return nil, fmt.Errorf("read document: %w", err)
		}
	}
	d, err := parseDocument(text)
	if err != nil {
		return nil, err
	}
	if d.id != p.ID || d.rev != p.Rev {
		return nil, fmt.Errorf("document %w: _id %q, _rev %q", errWrongID, d.id, d.rev)
	}
	switch {
	case d.deleted && d.bare && !d.history:
		// A tombstone without other members has no body.
	case keep:
		e.Body = d.text
	default:
		e.Body = d.withoutAttachments()
	}
	return e, nil
}

// publishAgain publishes a document whose fetch failed or was truncated.
func (s *run) publishAgain(ctx context.Context, p bridge.Version) error {
	return s.fetchOne(ctx, p, p.ContentID(), func() error { return s.publishSuccessors(ctx, p) })
}
