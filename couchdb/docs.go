package couchdb

import (
	"context"
	"encoding/json"
	"errors"
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

// Attachments says how the attachments of a document are read.
type Attachments int

// Ways to read attachments.
const (
	Stubs     Attachments = iota // their names, types, sizes and digests only
	Inline                       // in the JSON, as base64
	Multipart                    // as multipart/related (RFC 2387), which is streamed
)

// GetOptions say how documents are read.
type GetOptions struct {
	// Revs asks for the revision's ancestors, in _revisions.
	Revs bool
	// Latest asks for the leaves that a revision has become in the meantime
	// (protocol, "Fetch Changed Documents"): there may be several for one.
	Latest      bool
	Attachments Attachments
	// Once leaves it to the caller to repeat a request that failed.
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

// A Doc is a revision of a document as the server wrote it, or the reason why
// there is none.
type Doc struct {
	// Meta is what the document says about itself. If there is an Err, it has the
	// ID, and the Rev that was asked for.
	Meta
	// ContentType is "application/json", or "multipart/related" with its
	// boundary for a document with attachments that was asked for as Multipart.
	// PouchDB Server knows JSON only, with attachments inline.
	ContentType string
	// Body is the document, if Stream is nil. It belongs to the caller, who may
	// keep it, and should close it.
	Body *Body
	// Stream is a multipart document that is larger than Config.MaxWhole. It
	// comes from the connection, and can be read until the next document is.
	Stream io.Reader
	// Err says that the server has not got this revision (ErrNotFound), or does
	// not give it (ErrForbidden, or another [*Error]).
	Err error
}

// BulkGet reads documents with _bulk_get, or one by one if the server does not
// know that. There is one Doc for each IDRev, in their order. Only with Latest,
// or without a Rev, there may be more or none, in the order of the server.
//
// An error ends the iteration. If it is [Retryable], ask again for what did not
// come.
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
		q.Repeat, q.Once = true, o.Once // it changes nothing
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

// breaksHeader reports whether the id has control characters, which CouchDB writes into
// the header of the part as they are (X-Doc-Id). An answer of open_revs has no ids there.
func (d IDRev) breaksHeader() bool {
	return strings.ContainsFunc(d.ID, unicode.IsControl)
}

// noBulkGet reports whether the server does not know _bulk_get. One of PouchDB
// answers 400.
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

// maxQuery is how many bytes of revisions go into one request of open_revs.
// Servers and proxies take URLs of 8 KiB.
const maxQuery = 6 << 10

// OpenRevs reads the given leaves of a document, or all of them if revs is empty,
// with open_revs (protocol, "Fetch Changed Documents"), as multipart/mixed if
// attachments are wanted so. It yields as BulkGet does.
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
	case errors.As(err, &e) && e.Status == http.StatusNotFound && !e.noDatabase(): // there is no such document
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

// A docReader reads the documents in an answer.
type docReader struct {
	db    *DB
	q     Request
	asked []IDRev // that nothing was said about yet
	yield func(*Doc, error) bool
}

func (db *DB) newDocReader(q Request, asked []IDRev, yield func(*Doc, error) bool) *docReader {
	return &docReader{db: db, q: q, asked: slices.Clone(asked), yield: yield}
}

// errStop: the caller wants no more.
var errStop = errors.New("no more is wanted")

// read yields what is in the answer.
func (d *docReader) read(resp *http.Response) {
	contentType := resp.Header.Get("Content-Type")
	var err error
	if kind, _, _ := mime.ParseMediaType(contentType); strings.HasPrefix(kind, "multipart/") {
		err = d.multipart(resp.Body, contentType)
	} else {
		err = d.json(resp.Body)
	}
	if err == nil {
		// What is behind the documents, so that the connection can be used again.
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	}
	if err != nil && err != errStop {
		d.yield(nil, d.broken(err))
	}
}

// give yields a document.
func (d *docReader) give(doc *Doc) error {
	if i := slices.Index(d.asked, IDRev{doc.ID, doc.Rev}); i >= 0 {
		d.asked = slices.Delete(d.asked, i, i+1)
	}
	if !d.yield(doc, nil) {
		return errStop
	}
	return nil
}

// refusal yields that there is no document. The id or the revision that the
// server does not name is that of what was asked for with the other one: of several
// documents with the same revision, which they have if their content is the same, the
// first that nothing was said about.
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
	doc.Err = d.db.docError(d.q, r.Error, r.Reason)
	return d.give(doc)
}

// A refusal is what a server has in the place of a document.
type refusal struct {
	ID      string          `json:"id"`
	Rev     string          `json:"rev"`
	Error   string          `json:"error"`
	Reason  json.RawMessage `json:"reason"`
	Missing string          `json:"missing"` // a revision
}
