package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// A couchWriter creates, updates and deletes documents of a database, creates and resolves
// conflicts, and attaches files. It uses only HTTP, and continues when the database is
// available again.
type couchWriter struct {
	rng  *rand.Rand
	db   string // its URL
	done atomic.Int64
}

// documents is the number of documents to write to. Their IDs need escaping.
const documents = 60

func (w *couchWriter) id() string {
	n := w.rng.IntN(documents)
	return [...]string{"doc", "a/b ", "käse+", "_design/d", "%?&#"}[n%5] + strconv.Itoa(n)
}

// write makes one change, which is a new revision. It retries until the database has
// responded.
func (w *couchWriter) write(ctx context.Context) error {
	id := w.id()
	change := []func(context.Context, string) error{
		w.update, w.update, w.update, w.attach, w.delete, w.branch, w.branch, w.resolve, w.create,
	}[w.rng.IntN(9)]
	for {
		err := change(ctx, id)
		if err == nil {
			w.done.Add(1)
			return nil
		}
		var refused *refusedError
		if errors.As(err, &refused) && refused.status < 500 {
			return err
		}
		select { // the database is unavailable
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A refusedError is a response other than 2xx, 404 and 409.
type refusedError struct {
	method, url string
	status      int
	body        []byte
}

func (e *refusedError) Error() string {
	return fmt.Sprintf("%s %s: status %d: %s", e.method, e.url, e.status, e.body)
}

// do sends a request and reads the response into out. found is false if the document does not exist, or if another write
// was faster, which may be an earlier one of this writer.
func (w *couchWriter) do(ctx context.Context, method, path string, in, out any) (found bool, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return false, err
	}
	r, err := http.NewRequestWithContext(ctx, method, w.db+path, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	r.Header.Set("Accept", "application/json")
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		return false, err
	}
	switch response.StatusCode {
	case http.StatusOK, http.StatusCreated:
		return true, json.Unmarshal(body, out)
	case http.StatusNotFound, http.StatusConflict:
		return false, nil
	}
	return false, &refusedError{method, r.URL.String(), response.StatusCode, body}
}

// A leaf holds the members of a leaf revision that the writer needs.
type leaf struct {
	Rev       string `json:"_rev"`
	Conflicts []string
	Revisions struct {
		Start int
		IDs   []string
	} `json:"_revisions"`
	Attachments map[string]any `json:"_attachments,omitempty"`
}

func (w *couchWriter) get(ctx context.Context, id string) (l leaf, found bool, err error) {
	var answer struct {
		leaf
		Conflicts []string `json:"_conflicts"`
	}
	found, err = w.do(ctx, http.MethodGet, docPath(id)+"?revs=true&conflicts=true", nil, &answer)
	answer.leaf.Conflicts = answer.Conflicts
	return answer.leaf, found, err
}

func docPath(id string) string { return "/" + url.PathEscape(id) }

type answer struct{}

// update creates a document, or writes a revision after its winning revision.
func (w *couchWriter) update(ctx context.Context, id string) error {
	have, _, err := w.get(ctx, id)
	if err != nil {
		return err
	}
	doc := w.content(have.Attachments)
	if have.Rev != "" {
		doc["_rev"] = have.Rev
	}
	_, err = w.do(ctx, http.MethodPut, docPath(id), doc, &answer{})
	return err
}

func (w *couchWriter) content(attachments map[string]any) map[string]any {
	doc := map[string]any{"text": fmt.Sprintf("%x", w.rng.Uint64()), "number": w.rng.IntN(1000)}
	if len(attachments) > 0 {
		doc["_attachments"] = attachments
	}
	return doc
}

// create adds several documents in one request. They never change again.
func (w *couchWriter) create(ctx context.Context, _ string) error {
	docs := make([]map[string]any, 10)
	for i := range docs {
		docs[i] = w.content(nil)
	}
	_, err := w.do(ctx, http.MethodPost, "/_bulk_docs", map[string]any{"docs": docs}, &[]answer{})
	return err
}

// attach adds an attachment of text or bytes to a document, and keeps its other attachments.
func (w *couchWriter) attach(ctx context.Context, id string) error {
	have, _, err := w.get(ctx, id)
	if err != nil {
		return err
	}
	data := make([]byte, w.rng.IntN(4000))
	for i := range data {
		data[i] = byte(w.rng.IntN(256))
	}
	contentType := "application/octet-stream"
	if w.rng.IntN(2) == 0 {
		data, contentType = bytes.Repeat([]byte("text "), w.rng.IntN(1000)), "text/plain"
	}
	attachments := map[string]any{}
	for name, stub := range have.Attachments {
		attachments[name] = stub
	}
	attachments[fmt.Sprintf("file %d", w.rng.IntN(3))] = map[string]any{
		"content_type": contentType, "data": base64.StdEncoding.EncodeToString(data),
	}
	doc := w.content(attachments)
	if have.Rev != "" {
		doc["_rev"] = have.Rev
	}
	_, err = w.do(ctx, http.MethodPut, docPath(id), doc, &answer{})
	return err
}

// delete deletes the winning revision; another leaf may then win. Every second tombstone has a body. A missing document
// is created.
func (w *couchWriter) delete(ctx context.Context, id string) error {
	have, found, err := w.get(ctx, id)
	if err != nil {
		return err
	}
	if !found {
		return w.update(ctx, id)
	}
	doc := map[string]any{"_rev": have.Rev, "_deleted": true}
	if w.rng.IntN(2) == 0 {
		doc["reason"] = fmt.Sprintf("%x", w.rng.Uint64())
	}
	_, err = w.do(ctx, http.MethodPut, docPath(id), doc, &answer{})
	return err
}

// branch adds a leaf beside the winning revision, or after it, as a replication would.
func (w *couchWriter) branch(ctx context.Context, id string) error {
	have, _, err := w.get(ctx, id)
	if err != nil {
		return err
	}
	start, ids := have.Revisions.Start, have.Revisions.IDs
	if len(ids) > 0 && w.rng.IntN(3) > 0 {
		start, ids = start-1, ids[1:]
	}
	hash := fmt.Sprintf("%016x%016x", w.rng.Uint64(), w.rng.Uint64())
	doc := w.content(nil)
	doc["_id"] = id
	doc["_rev"] = fmt.Sprintf("%d-%s", start+1, hash)
	doc["_revisions"] = map[string]any{"start": start + 1, "ids": append([]string{hash}, ids...)}
	if w.rng.IntN(5) == 0 {
		doc["_deleted"] = true
	}
	_, err = w.do(ctx, http.MethodPost, "/_bulk_docs", map[string]any{"docs": []any{doc}, "new_edits": false}, &[]answer{})
	return err
}

// resolve deletes a leaf that is not the winning revision. If there is no conflict, it creates one.
func (w *couchWriter) resolve(ctx context.Context, id string) error {
	have, _, err := w.get(ctx, id)
	if err != nil {
		return err
	}
	if len(have.Conflicts) == 0 {
		return w.branch(ctx, id)
	}
	rev := have.Conflicts[w.rng.IntN(len(have.Conflicts))]
	_, err = w.do(ctx, http.MethodDelete, docPath(id)+"?rev="+rev, nil, &answer{})
	return err
}
