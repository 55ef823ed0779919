package couchtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

// An input is a document as a client sends it.
type input struct {
	id          string
	rev         string   // "" for none
	history     []string // the hashes from _revisions, newest first
	deleted     bool
	body        []member
	attachments []byte // the member _attachments; nil for none
}

// parseInput parses a document, and makes the checks that CouchDB makes before it stores anything.
func (f *Fake) parseInput(text []byte) (*input, error) {
	if !utf8.Valid(text) {
		return nil, badRequest("invalid UTF-8 JSON")
	}
	members, err := parseObject(text)
	if err != nil {
		return nil, badRequest("Document must be a JSON object")
	}
	in := new(input)
	for _, m := range members {
		switch m.name {
		case "_id":
			err = json.Unmarshal(m.value, &in.id)
		case "_rev":
			err = json.Unmarshal(m.value, &in.rev)
		case "_deleted":
			err = json.Unmarshal(m.value, &in.deleted)
		case "_revisions":
			var r struct {
				Start int
				IDs   []string
			}
			if err = json.Unmarshal(m.value, &r); err == nil && len(r.IDs) > 0 {
				in.rev, in.history = fmt.Sprintf("%d-%s", r.Start, r.IDs[0]), r.IDs
			}
		case "_attachments":
			in.attachments = m.value
		case "_revs_info", "_local_seq", "_conflicts", "_deleted_conflicts":
		default:
			if strings.HasPrefix(m.name, "_") {
				return nil, &failure{http.StatusBadRequest, "doc_validation", "Bad special document member: " + m.name}
			}
			in.body = append(in.body, m)
		}
		if err != nil {
			return nil, badRequest("Invalid " + m.name)
		}
	}
	if len(object(in.body...)) > f.MaxDocument {
		return nil, &failure{http.StatusRequestEntityTooLarge, "document_too_large", in.id}
	}
	return in, nil
}

func checkID(id string) error {
	illegal := func(reason string) error { return &failure{http.StatusBadRequest, "illegal_docid", reason} }
	switch {
	case id == "":
		return illegal("Document id must not be empty")
	case !utf8.ValidString(id):
		return illegal("Document id must be valid UTF-8")
	case strings.HasPrefix(id, "_") && !strings.HasPrefix(id, "_design/"):
		return illegal("Only reserved document ids may start with underscore.")
	}
	return nil
}

// store writes a document, as a new edit or, if newEdit is false, as the revision that the document
// names. It returns the name of the revision. The caller must hold f.mu.
func (f *Fake) store(db *database, in *input, newEdit bool, sent parts) (string, error) {
	if f.Validate != nil {
		err := f.Validate(in.id, object(in.body...))
		var thrown ThrownError
		if errors.As(err, &thrown) {
			return "", &failure{http.StatusInternalServerError, thrown.Code, thrown.Reason}
		}
		if err != nil {
			return "", &failure{http.StatusForbidden, "forbidden", err.Error()}
		}
	}
	d := db.document(in.id)
	if !newEdit {
		return in.rev, f.graft(db, d, in, sent)
	}
	content := &revision{stored: true, deleted: in.deleted, body: in.body}
	var have []attachment
	if base := d.revs[in.rev]; base != nil {
		have = base.attachments
	}
	if err := content.attach(in.attachments, have, sent); err != nil {
		return "", err
	}
	r, err := d.edit(in.rev, content)
	if err != nil {
		return "", err
	}
	for i := range r.attachments {
		if r.attachments[i].revpos == 0 {
			r.attachments[i].revpos = r.generation
		}
	}
	f.updated(db, d)
	return r.name(), nil
}

// graft stores a revision under the name that the document gives for it.
func (f *Fake) graft(db *database, d *document, in *input, sent parts) error {
	generation, hash, err := parseRev(in.rev)
	if err != nil {
		return err
	}
	if in.history == nil {
		in.history = []string{hash}
	}
	content := new(revision)
	var have []attachment
	for i := range in.history[1:] {
		if a := d.revs[fmt.Sprintf("%d-%s", generation-1-i, in.history[1+i])]; a != nil && a.stored {
			have = a.attachments
			break
		}
	}
	if err := content.attach(in.attachments, have, sent); err != nil {
		return err
	}
	r := d.graft(generation, in.history)
	if r == nil {
		return nil // the revision is known already
	}
	r.stored, r.deleted, r.body, r.attachments = true, in.deleted, in.body, content.attachments
	f.updated(db, d)
	return nil
}

func (r *revision) attach(text []byte, have []attachment, sent parts) (err error) {
	if text != nil {
		r.attachments, err = parseAttachments(text, have, sent)
	}
	return err
}

// put writes a document from JSON or multipart/related.
func (f *Fake) put(w http.ResponseWriter, r *http.Request, db *database, id string) error {
	text, sent, err := readDocument(r)
	if err != nil {
		return err
	}
	in, err := f.parseInput(text)
	if err != nil {
		return err
	}
	in.id = id
	if err := checkID(id); err != nil {
		return err
	}
	if rev := r.URL.Query().Get("rev"); rev != "" {
		in.rev = rev
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	rev, err := f.store(db, in, r.URL.Query().Get("new_edits") != "false", sent)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", `"`+rev+`"`)
	return writeJSON(w, http.StatusCreated, written(id, rev))
}

func (f *Fake) delete(w http.ResponseWriter, r *http.Request, db *database, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := db.docs[id]; d == nil || d.winner().deleted {
		return errMissing
	}
	rev, err := f.store(db, &input{id: id, rev: r.URL.Query().Get("rev"), deleted: true}, true, nil)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, written(id, rev))
}

// attachment reads or writes one attachment of a document.
func (f *Fake) attachment(w http.ResponseWriter, r *http.Request, db *database, id, name string) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	rev := r.URL.Query().Get("rev")
	d := db.document(id)
	if r.Method == http.MethodPut {
		content := &revision{stored: true}
		if base := d.revs[rev]; base != nil {
			content.body, content.attachments = base.body, without(base.attachments, name)
		}
		content.attachments = append(content.attachments, newAttachment(name, r.Header.Get("Content-Type"), 0, body))
		stored, err := d.edit(rev, content)
		if err != nil {
			return err
		}
		stored.attachments[len(stored.attachments)-1].revpos = stored.generation
		f.updated(db, d)
		return writeJSON(w, http.StatusCreated, written(id, stored.name()))
	}
	if len(d.revs) == 0 {
		return errMissing
	}
	from := d.winner()
	if rev != "" {
		from = d.revs[rev]
	}
	if from == nil || from.deleted && rev == "" {
		return errMissing
	}
	for _, a := range from.attachments {
		if a.name == name {
			return writeAttachment(w, r, a)
		}
	}
	return &failure{http.StatusNotFound, "not_found", "Document is missing attachment"}
}

func without(list []attachment, name string) (rest []attachment) {
	for _, a := range list {
		if a.name != name {
			rest = append(rest, a)
		}
	}
	return rest
}
