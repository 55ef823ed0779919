package couchdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
)

// maxCut is the largest document out of which attachments are taken, in bytes: it must be
// in memory for that. CouchDB's own limit for documents is 8 MB by default.
const maxCut = 16 << 20

// errTooLarge is the reason of documents that are larger than Config.MaxDocument.
var errTooLarge = errors.New("document is larger than the limit")

// publishWant publishes one revision, or finds out why it should not be.
func (s *run) publishWant(ctx context.Context, w *want) error {
	switch {
	case w.older:
		return s.publishReturned(ctx, w.pair)
	case w.chunk == nil:
		return s.publishRow(ctx, w)
	}
	f, err := w.chunk.next(ctx)
	if f.read != nil {
		defer close(f.read)
	}
	switch {
	case err != nil:
		return fmt.Errorf("read document %q, revision %q: %w", w.id, w.rev, err)
	case f.failed:
		return s.publishAgain(ctx, w.pair)
	case errors.Is(f.doc.Err, couchdb.ErrNotFound):
		return s.publishSuccessors(ctx, w.pair)
	}
	err = s.publishDoc(ctx, w.pair, w.pair.contentID(), f.doc)
	if source := (*sourceError)(nil); errors.As(err, &source) { // the node that has it is not there for now, or its stream broke off
		return s.publishAgain(ctx, w.pair)
	}
	return err
}

// publishRow publishes the document in a row.
func (s *run) publishRow(ctx context.Context, w *want) error {
	doc := couchdb.Doc{Meta: w.row.Meta, ContentType: mediaJSON, Body: w.row.Doc}
	return s.publishBody(ctx, w.pair, w.pair.contentID(), &doc)
}

// publishDoc publishes a document that was fetched, and releases it.
func (s *run) publishDoc(ctx context.Context, p pair, contentID string, doc *couchdb.Doc) (err error) {
	if doc.Err != nil && couchdb.Retryable(doc.Err) {
		return &sourceError{doc.Err}
	}
	if doc.Err != nil {
		return s.reject(ctx, Quarantined{ID: p.id, Rev: p.rev, Reason: "source does not give it: " + doc.Err.Error()})
	}
	if doc.Body != nil {
		// What is in memory is not touched by it.
		defer func() { err = errors.Join(err, doc.Body.Close()) }()
	}
	return s.publishBody(ctx, p, contentID, doc)
}

// publishBody publishes a document, or puts it into quarantine.
func (s *run) publishBody(ctx context.Context, p pair, contentID string, doc *couchdb.Doc) error {
	s.b.meter.count(func(n *Progress) { n.Read++ })
	e, err := s.entity(p, doc)
	if err == nil {
		e.ContentID = contentID
		err = e.Check(true)
	}
	if err != nil {
		return s.reject(ctx, Quarantined{ID: p.id, Rev: p.rev, Reason: err.Error()})
	}
	if e.Stream == nil {
		s.add(p, e)
		return nil
	}
	return s.publishStream(ctx, p, e)
}

// entity makes an entity of a document. Its error is a reason for quarantine.
func (s *run) entity(p pair, doc *couchdb.Doc) (*feed.Entity, error) {
	limit := s.b.config.MaxDocument
	if doc.Body != nil && limit > 0 && doc.Body.Size() > limit {
		return nil, fmt.Errorf("%w of %d bytes: it has %d", errTooLarge, limit, doc.Body.Size())
	}
	op := feed.Put
	if doc.Deleted {
		op = feed.Delete
	}
	keep := s.b.config.Attachments != None
	switch {
	case doc.Stream != nil:
		return streamEntity(p, op, doc.ContentType, doc.Stream, -1), nil
	case doc.ContentType != mediaJSON && doc.Body.Bytes() != nil:
		e := p.entity(op)
		e.ContentType, e.Body = doc.ContentType, doc.Body.Bytes()
		return e, nil
	case doc.Body.Bytes() == nil && (keep || !doc.HasAttachments || doc.ContentType != mediaJSON):
		return streamEntity(p, op, doc.ContentType, doc.Body.Reader(), doc.Body.Size()), nil
	}
	text := doc.Body.Bytes()
	if text == nil {
		if doc.Body.Size() > maxCut {
			return nil, fmt.Errorf("document has %d bytes, more than the %d up to which attachments can be taken out", doc.Body.Size(), maxCut)
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
	if d.id != p.id || d.rev != p.rev {
		return nil, fmt.Errorf("document %w: _id %q, _rev %q", errWrongID, d.id, d.rev)
	}
	return jsonEntity(d, keep), nil
}

// publishStream publishes an entity whose body is a stream, now: the stream will not be
// there later. What comes before it goes first.
func (s *run) publishStream(ctx context.Context, p pair, e *feed.Entity) error {
	if err := s.flush(ctx); err != nil {
		return err
	}
	source := &guard{r: e.Stream, limit: s.b.config.MaxDocument, text: e.ContentType == mediaJSON}
	e.Stream = source
	s.add(p, e)
	err := s.flush(ctx)
	switch {
	case err == nil || source.err == nil || ctx.Err() != nil:
		return err // there was nothing wrong with the source
	case errors.Is(source.err, errTooLarge), errors.Is(source.err, errNotUTF8):
		return s.reject(ctx, Quarantined{ID: p.id, Rev: p.rev, Reason: source.err.Error()})
	}
	return &sourceError{source.err}
}

// publishAgain publishes a document that did not come, or whose stream broke off.
func (s *run) publishAgain(ctx context.Context, p pair) error {
	return s.fetchOne(ctx, p, func(doc *couchdb.Doc) error {
		if errors.Is(doc.Err, couchdb.ErrNotFound) {
			return s.publishSuccessors(ctx, p)
		}
		return s.publishDoc(ctx, p, p.contentID(), doc)
	})
}

// A guard looks at a stream that passes, and remembers why it failed.
type guard struct {
	r     io.Reader
	limit int64 // 0: none
	text  bool  // must be UTF-8
	size  int64
	split []byte // the beginning of a character that the last read cut in two
	err   error
}

func (g *guard) Read(b []byte) (int, error) {
	n, err := g.r.Read(b)
	g.size += int64(n)
	if g.limit > 0 && g.size > g.limit {
		err = fmt.Errorf("%w of %d bytes", errTooLarge, g.limit)
	}
	if g.text && !g.valid(b[:n], errors.Is(err, io.EOF)) {
		err = fmt.Errorf("document %w before byte %d", errNotUTF8, g.size)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		g.err = err
	}
	return n, err
}

// valid reports whether the text is UTF-8 so far, or as a whole at its end.
func (g *guard) valid(b []byte, end bool) bool {
	if len(g.split) > 0 {
		b = append(g.split, b...)
		g.split = nil
	}
	if !end {
		cut := len(b)
		for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
			if c := b[len(b)-i]; utf8.RuneStart(c) {
				if !utf8.FullRune(b[len(b)-i:]) {
					cut = len(b) - i
				}
				break
			}
		}
		g.split = append(g.split, b[cut:]...)
		b = b[:cut]
	}
	return utf8.Valid(b)
}
