package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// An IDRev names a revision of a document.
type IDRev struct {
	ID  string `json:"id"`
	Rev string `json:"rev,omitempty"` // empty: every leaf
}

// Attachments determines how the attachments of a document are read.
type Attachments int

// Ways to read attachments.
const (
	Stubs     Attachments = iota // names, types, sizes and digests only
	Inline                       // base64 in the JSON
	Multipart                    // multipart/related (RFC 2387), streamed
)

// GetOptions are options for reading documents.
type GetOptions struct {
	// Revs requests the revision's ancestors, in _revisions.
	Revs bool
	// Latest requests the leaves that have replaced a revision (protocol, "Fetch Changed
	// Documents"). A revision may have been replaced by several leaves.
	Latest      bool
	Attachments Attachments
	// Once disables retries, which are left to the caller.
	Once bool
}

func (o GetOptions) query() url.Values {
	q := make(url.Values)
	for name, wanted := range map[string]bool{"revs": o.Revs, "latest": o.Latest, "attachments": o.Attachments != Stubs} {
		if wanted {
			q.Set(name, "true")
		}
	}
	return q
}

func (o GetOptions) accept() string {
	if o.Attachments == Multipart {
		return "multipart/mixed"
	}
	return "application/json"
}

// A Doc is a revision of a document as the server sent it, or the error for it.
type Doc struct {
	// Meta is taken from the document. If Err is set, Meta has only the ID and the Rev that were
	// requested.
	Meta
	// ContentType is "application/json", or "multipart/related" with its
	// boundary for a document with attachments that was requested as Multipart.
	// PouchDB Server sends only JSON, with attachments inline.
	ContentType string
	// Body is the document, if Stream is nil. The caller may keep it, and should close it.
	Body *Body
	// Stream is a multipart document that is larger than Config.MaxWhole. It
	// reads from the connection, and is valid until the next iteration.
	Stream io.Reader
	// Err is set if the server does not have this revision (ErrNotFound) or
	// refuses to send it (ErrForbidden, or another [*Error]).
	Err error
}

// BulkGet reads documents with _bulk_get, or one by one if the server does not support that. It
// yields one Doc for each IDRev, in the order of docs. With Latest, or for an IDRev without a Rev,
// it yields any number of Docs, in the server's order.
//
// An error ends the iteration. If it is [Retryable], request the missing documents again.
func (db *DB) BulkGet(ctx context.Context, docs []IDRev, o GetOptions) iter.Seq2[*Doc, error] {
	exact := !o.Latest && !slices.ContainsFunc(docs, func(d IDRev) bool { return d.Rev == "" })
	return func(yield func(*Doc, error) bool) {
		if exact {
			o := &order{left: docs, early: make(map[IDRev][]*Doc), yield: yield}
			defer o.close()
			yield = o.take
		}
		body, err := json.Marshal(map[string][]IDRev{"docs": docs})
		if err != nil {
			yield(nil, err)
			return
		}
		if o.Attachments == Multipart && slices.ContainsFunc(docs, IDRev.breaksHeader) {
			db.getEach(ctx, docs, o, yield)
			return
		}
		q := JSONRequest(http.MethodPost, "_bulk_get", body)
		q.Header.Set("Accept", o.accept())
		q.Query = o.query()
		q.Repeat, q.Once = true, o.Once // read-only
		var e *Error
		switch resp, err := db.Do(ctx, q); {
		case errors.As(err, &e) && e.noBulkGet():
			db.getEach(ctx, docs, o, yield)
		case err != nil:
			yield(nil, err)
		default:
			defer resp.Body.Close()
			db.newDocReader(q, docs, yield).read(resp)
		}
	}
}

// breaksHeader reports whether the id has control characters, which CouchDB would write unescaped
// into a header field of the part (X-Doc-Id). Responses to open_revs have no such header.
func (d IDRev) breaksHeader() bool {
	return strings.ContainsFunc(d.ID, unicode.IsControl)
}

// noBulkGet reports whether the server does not support _bulk_get. PouchDB Server
// may respond with status 400.
func (e *Error) noBulkGet() bool {
	return e.unsupported() || e.Status == http.StatusBadRequest && strings.Contains(e.Reason, "not supported")
}

// getEach reads documents one by one.
func (db *DB) getEach(ctx context.Context, docs []IDRev, o GetOptions, yield func(*Doc, error) bool) {
	for _, doc := range docs {
		var revs []string
		if doc.Rev != "" {
			revs = []string{doc.Rev}
		}
		for d, err := range db.OpenRevs(ctx, doc.ID, revs, o) {
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// maxQuery is the maximum size, in bytes, of the revisions in one request with open_revs. Servers
// and proxies accept URLs of 8 KiB.
const maxQuery = 6 << 10

// OpenRevs reads the given leaves of a document, or all of them if revs is empty,
// with open_revs (protocol, "Fetch Changed Documents"). It yields Docs as BulkGet does.
func (db *DB) OpenRevs(ctx context.Context, id string, revs []string, o GetOptions) iter.Seq2[*Doc, error] {
	return func(yield func(*Doc, error) bool) {
		ended := false
		once := func(d *Doc, err error) bool {
			ended = ended || !yield(d, err) || err != nil
			return !ended
		}
		for first := true; !ended && (first || len(revs) > 0); first = false {
			n, size := 0, 0
			for n < len(revs) && size < maxQuery {
				size += len(revs[n]) + len(`%22%2C%22`)
				n++
			}
			db.openRevs(ctx, id, revs[:n], o, once)
			revs = revs[n:]
		}
	}
}

func (db *DB) openRevs(ctx context.Context, id string, revs []string, o GetOptions, yield func(*Doc, error) bool) {
	q := Request{Method: http.MethodGet, Path: DocPath(id), Query: o.query(), Header: http.Header{"Accept": {o.accept()}}, Once: o.Once}
	q.Query.Set("open_revs", "all")
	asked := []IDRev{{ID: id}}
	if len(revs) > 0 {
		text, err := json.Marshal(revs)
		if err != nil {
			yield(nil, err)
			return
		}
		q.Query.Set("open_revs", string(text))
		asked = asked[:0]
		for _, rev := range revs {
			asked = append(asked, IDRev{id, rev})
		}
	}
	resp, err := db.Do(ctx, q)
	var e *Error
	switch {
	case errors.As(err, &e) && e.Status == http.StatusNotFound && !e.noDatabase(): // no such document
		for _, a := range asked {
			if !yield(&Doc{Meta: Meta{ID: a.ID, Rev: a.Rev}, Err: e}, nil) {
				return
			}
		}
		return
	case err != nil:
		yield(nil, err)
		return
	}
	defer resp.Body.Close()
	db.newDocReader(q, asked, yield).read(resp)
}

// A docReader reads the documents in a response.
type docReader struct {
	db    *DB
	q     Request
	asked []IDRev // revisions that were requested and not received yet
	yield func(*Doc, error) bool
}

func (db *DB) newDocReader(q Request, asked []IDRev, yield func(*Doc, error) bool) *docReader {
	return &docReader{db: db, q: q, asked: slices.Clone(asked), yield: yield}
}

// errStop means that yield returned false.
var errStop = errors.New("iteration stopped")

// read yields the documents in resp.
func (d *docReader) read(resp *http.Response) {
	contentType := resp.Header.Get("Content-Type")
	var err error
	if kind, _, _ := mime.ParseMediaType(contentType); strings.HasPrefix(kind, "multipart/") {
		err = d.multipart(resp.Body, contentType)
	} else {
		err = d.json(resp.Body)
	}
	if err == nil {
		// Read to the end so that the connection can be reused.
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	}
	if err != nil && err != errStop {
		d.yield(nil, d.broken(err))
	}
}

// give yields a document and removes it from asked.
func (d *docReader) give(doc *Doc) error {
	if i := slices.Index(d.asked, IDRev{doc.ID, doc.Rev}); i >= 0 {
		d.asked = slices.Delete(d.asked, i, i+1)
	}
	if !d.yield(doc, nil) {
		return errStop
	}
	return nil
}

// refusal yields a Doc with an error. If the server names only the id or only the revision, the
// other one is taken from the first matching element of asked, since several documents with the
// same content may have the same revision.
func (d *docReader) refusal(r refusal) error {
	doc := &Doc{Meta: Meta{ID: r.ID, Rev: r.Rev}}
	if r.Missing != "" {
		doc.Rev, r.Error = r.Missing, "not_found"
	}
	for _, asked := range d.asked {
		if doc.ID == "" && asked.Rev == doc.Rev {
			doc.ID = asked.ID
		}
		if doc.Rev == "" && asked.ID == doc.ID {
			doc.Rev = asked.Rev
		}
	}
	doc.Err = d.db.docError(d.q, r)
	return d.give(doc)
}

// An order yields documents in the order in which they were requested. CouchDB sends them in this
// order; PouchDB Server groups the revisions of a document. Documents that arrive too early are
// kept until their turn.
type order struct {
	left  []IDRev // not yielded yet
	early map[IDRev][]*Doc
	ended bool // yield has returned false, or an error was yielded
	yield func(*Doc, error) bool
}

// take accepts the next document, or the error that ends the iteration. It returns false if the
// iteration has ended.
func (o *order) take(d *Doc, err error) bool {
	if err != nil {
		o.ended = true
		return o.yield(nil, err)
	}
	if id := (IDRev{d.ID, d.Rev}); d.Stream == nil && len(o.left) > 0 && id != o.left[0] {
		o.early[id] = append(o.early[id], d)
		return true
	}
	for {
		o.left = o.left[min(1, len(o.left)):]
		if o.ended = !o.yield(d, nil); o.ended || len(o.left) == 0 {
			return !o.ended
		}
		held := o.early[o.left[0]]
		if len(held) == 0 {
			return true
		}
		d, o.early[o.left[0]] = held[0], held[1:]
	}
}

// close closes the documents that are still kept. If the iteration has not ended and documents are
// missing, it yields an error.
func (o *order) close() {
	if !o.ended && len(o.left) > 0 {
		o.yield(nil, fmt.Errorf("read documents: %w: revision %s of document %q is missing from the response", ErrMalformed, o.left[0].Rev, o.left[0].ID))
	}
	for _, held := range o.early {
		for _, d := range held {
			d.Body.Close()
		}
	}
}
