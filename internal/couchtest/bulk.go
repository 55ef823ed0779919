package couchtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
)

// readJSON reads the body of a request.
func readJSON(r *http.Request, into any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return badRequest("invalid UTF-8 JSON")
	}
	return nil
}

// bulkDocs writes many documents, or refuses all if one is malformed. The response lists all documents or, if
// new_edits is false, only those that cannot be stored.
func (f *Fake) bulkDocs(w http.ResponseWriter, r *http.Request, db *database) error {
	var asked struct {
		Docs     []json.RawMessage
		NewEdits *bool `json:"new_edits"`
	}
	if err := readJSON(r, &asked); err != nil {
		return err
	}
	if asked.Docs == nil {
		return badRequest("POST body must include `docs` parameter.")
	}
	newEdits := asked.NewEdits == nil || *asked.NewEdits
	var inputs []*input
	for _, text := range asked.Docs {
		in, err := f.parseInput(text)
		if err == nil {
			err = checkID(in.id)
		}
		if err != nil {
			return err
		}
		inputs = append(inputs, in)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var results [][]byte
	for _, in := range inputs {
		rev, err := f.store(db, in, newEdits, nil)
		var no *failure
		failed := errors.As(err, &no)
		switch {
		case failed && (no.status == http.StatusPreconditionFailed || no == errDigest):
			return no // a stub is malformed, or there is no attachment for it
		case failed:
			row := []member{{"id", quote(in.id)}, {"rev", nil}, {"error", quote(no.code)}, {"reason", quote(no.reason)}}
			if !newEdits {
				row[1].value = quote(in.rev)
			}
			results = append(results, object(row...))
		case newEdits:
			results = append(results, written(in.id, rev))
		}
	}
	return writeJSON(w, http.StatusCreated, array(results...))
}

// revsDiff responds with those of the given revisions that are not known.
func (f *Fake) revsDiff(w http.ResponseWriter, r *http.Request, db *database) error {
	var asked map[string][]string
	if err := readJSON(r, &asked); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var answer []member
	for _, id := range slices.Sorted(maps.Keys(asked)) {
		d := db.document(id)
		var unknown, ancestors []string
		newest := 0
		for _, name := range asked[id] {
			generation, _, err := parseRev(name)
			if err != nil {
				return err
			}
			if d.revs[name] == nil {
				unknown = append(unknown, name)
				newest = max(newest, generation)
			}
		}
		for _, leaf := range d.leaves() {
			if leaf.generation < newest {
				ancestors = append(ancestors, leaf.name())
			}
		}
		if unknown == nil {
			continue
		}
		members := []member{{"missing", quoteAll(unknown)}}
		if ancestors != nil {
			members = append(members, member{"possible_ancestors", quoteAll(ancestors)})
		}
		answer = append(answer, member{id, object(members...)})
	}
	return writeJSON(w, http.StatusOK, object(answer...))
}

// A wanted is a document that a request to _bulk_get asks for. If Rev is empty, the request asks for all
// leaves.
type wanted struct {
	ID        string
	Rev       string
	AttsSince []string `json:"atts_since"`
}

// bulkGet sends revisions of many documents, in the order in which they were requested.
func (f *Fake) bulkGet(w http.ResponseWriter, r *http.Request, db *database) error {
	var asked struct{ Docs []wanted }
	if err := readJSON(r, &asked); err != nil {
		return err
	}
	if asked.Docs == nil {
		return badRequest("Missing JSON list of 'docs'.")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	v := parseView(r.URL.Query())
	if !accepts(r, "application/json") && (accepts(r, "multipart/mixed") || accepts(r, "multipart/related")) {
		bulkGetMultipart(w, db, asked.Docs, v)
		return nil
	}
	var results [][]byte
	for _, want := range asked.Docs {
		d, list, v := want.open(db, v)
		var docs [][]byte
		for _, o := range list {
			if o.rev == nil {
				docs = append(docs, object(member{"error", want.missing(o)}))
				continue
			}
			docs = append(docs, object(member{"ok", v.show(d, o.rev, v.embedded())}))
		}
		results = append(results, object(member{"id", quote(want.ID)}, member{"docs", array(docs...)}))
	}
	return writeJSON(w, http.StatusOK, object(member{"results", array(results...)}))
}

// open finds the wanted revisions.
func (want wanted) open(db *database, v view) (*document, []opened, view) {
	d := db.docs[want.ID]
	if want.AttsSince != nil {
		v.attsSince, v.attachments = want.AttsSince, true
	}
	list := d.open([]string{want.Rev}, want.Rev == "", v.latest)
	if len(list) == 0 {
		list = []opened{{missing: "undefined"}}
	}
	return d, list, v
}

func (want wanted) missing(o opened) []byte {
	return object(
		member{"rev", quote(o.missing)}, member{"reason", quote("missing")},
		member{"id", quote(want.ID)}, member{"error", quote("not_found")},
	)
}

// bulkGetMultipart writes the documents as parts of a multipart document. As in CouchDB, the boundaries
// themselves begin with two hyphens.
func bulkGetMultipart(w http.ResponseWriter, db *database, docs []wanted, v view) {
	outer, inner := "--"+boundary(), "--"+boundary()
	w.Header().Set("Content-Type", `multipart/mixed; boundary="`+outer+`"`)
	for _, want := range docs {
		d, list, v := want.open(db, v)
		for _, o := range list {
			fmt.Fprint(w, "\r\n--"+outer)
			switch {
			case o.rev == nil:
				fmt.Fprint(w, "\r\nContent-Type: application/json; error=\"true\"\r\n\r\n")
				w.Write(object( // as in CouchDB, without the id
					member{"rev", quote(o.missing)}, member{"error", quote("not_found")}, member{"reason", quote("missing")},
				))
			case len(v.following(o.rev)) == 0:
				fmt.Fprint(w, "\r\nContent-Type: application/json\r\n\r\n")
				w.Write(v.show(d, o.rev, follows))
			default:
				fmt.Fprint(w, "\r\nX-Doc-Id: "+d.id+"\r\nX-Rev-Id: "+o.rev.name()+
					"\r\nContent-Type: multipart/related; boundary="+inner+"\r\n\r\n")
				w.Write(related(inner, v.show(d, o.rev, follows), v.following(o.rev)))
			}
		}
	}
	if len(docs) > 0 {
		fmt.Fprint(w, "\r\n--"+outer+"--\r\n")
	}
}
