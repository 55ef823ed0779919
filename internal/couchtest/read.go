package couchtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A view says how a client wants to see documents.
type view struct {
	revs, conflicts, deletedConflicts, attachments, encodingInfo, latest bool
	attsSince                                                            []string
}

func parseView(q url.Values) view {
	is := func(name string) bool { return q.Get(name) == "true" }
	v := view{is("revs"), is("conflicts"), is("deleted_conflicts"), is("attachments"), is("att_encoding_info"), is("latest"), nil}
	if text := q.Get("atts_since"); text != "" && json.Unmarshal([]byte(text), &v.attsSince) == nil {
		v.attachments = true
	}
	return v
}

// form returns the form in which an attachment is shown: as a stub if the client already has it
// from an earlier revision, and otherwise in the given form.
func (v view) form(r *revision, a attachment, full form) form {
	for ; r != nil; r = r.parent {
		if slices.Contains(v.attsSince, r.name()) && a.revpos <= r.generation {
			return stub
		}
	}
	return full
}

// show returns a revision as JSON. The parameter full is the form of attachments that are not
// stubs.
func (v view) show(d *document, r *revision, full form) []byte {
	members := []member{{"_id", quote(d.id)}, {"_rev", quote(r.name())}}
	members = append(members, r.body...)
	members = append(members, member{"_deleted", yes(r.deleted)})
	if v.revs {
		members = append(members, member{"_revisions", object(
			member{"start", number(r.generation)}, member{"ids", quoteAll(r.history())},
		)})
	}
	if names := d.conflicts(false); v.conflicts && len(names) > 0 {
		members = append(members, member{"_conflicts", quoteAll(names)})
	}
	if names := d.conflicts(true); v.deletedConflicts && len(names) > 0 {
		members = append(members, member{"_deleted_conflicts", quoteAll(names)})
	}
	var attachments []member
	for _, a := range r.attachments {
		attachments = append(attachments, a.json(v.form(r, a, full), v.encodingInfo))
	}
	if attachments != nil {
		members = append(members, member{"_attachments", object(attachments...)})
	}
	return object(members...)
}

// following returns the attachments of a revision that are not stubs, and so must follow the
// document.
func (v view) following(r *revision) (list []attachment) {
	for _, a := range r.attachments {
		if v.form(r, a, follows) == follows {
			list = append(list, a)
		}
	}
	return list
}

// embedded returns the form of attachments in a JSON response.
func (v view) embedded() form {
	if v.attachments {
		return inline
	}
	return stub
}

// get handles a request for a document.
func (f *Fake) get(w http.ResponseWriter, r *http.Request, db *database, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := db.docs[id]
	q := r.URL.Query()
	if open := q.Get("open_revs"); open != "" {
		return f.openRevs(w, r, d, open)
	}
	if d == nil {
		return errMissing
	}
	rev := d.winner()
	if name := q.Get("rev"); name != "" {
		if rev = d.revs[name]; rev == nil || !rev.stored {
			return errMissing
		}
	} else if rev.deleted {
		return errDeleted
	}
	v := parseView(q)
	w.Header().Set("ETag", `"`+rev.name()+`"`)
	if v.attachments && len(v.following(rev)) > 0 && accepts(r, "multipart/related") {
		boundary := boundary()
		w.Header().Set("Content-Type", `multipart/related; boundary="`+boundary+`"`)
		w.Write(related(boundary, v.show(d, rev, follows), v.following(rev)))
		return nil
	}
	return writeJSON(w, http.StatusOK, v.show(d, rev, v.embedded()))
}

// An opened is a revision that was requested: the revision itself, or its name if it was not found.
type opened struct {
	rev     *revision
	missing string
}

// open finds revisions by their names or, if all is true, all leaves. If latest is true, it returns
// the leaves that follow the named revisions.
func (d *document) open(names []string, all, latest bool) (list []opened) {
	if d == nil {
		d = new(document)
	}
	if all {
		leaves := d.leaves()
		slices.SortFunc(leaves, byAge)
		for _, r := range leaves {
			list = append(list, opened{rev: r})
		}
		return list
	}
	for _, name := range names {
		found := d.revs[name]
		switch {
		case found != nil && latest:
			for _, leaf := range d.leavesOf(found) {
				if !slices.ContainsFunc(list, func(o opened) bool { return o.rev == leaf }) {
					list = append(list, opened{rev: leaf})
				}
			}
		case found != nil && found.stored:
			list = append(list, opened{rev: found})
		default:
			list = append(list, opened{missing: name})
		}
	}
	return list
}

// openRevs responds with several revisions of a document.
func (f *Fake) openRevs(w http.ResponseWriter, r *http.Request, d *document, which string) error {
	var names []string
	if err := json.Unmarshal([]byte(which), &names); err != nil && which != "all" {
		return badRequest("invalid UTF-8 JSON")
	}
	v := parseView(r.URL.Query())
	list := d.open(names, which == "all", v.latest)
	if len(list) == 0 {
		return errMissing
	}
	if !accepts(r, "multipart/mixed") {
		var values [][]byte
		for _, o := range list {
			if o.rev == nil {
				values = append(values, object(member{"missing", quote(o.missing)}))
				continue
			}
			values = append(values, object(member{"ok", v.show(d, o.rev, v.embedded())}))
		}
		return writeJSON(w, http.StatusOK, array(values...))
	}
	outer, inner := boundary(), boundary()
	w.Header().Set("Content-Type", `multipart/mixed; boundary="`+outer+`"`)
	fmt.Fprint(w, "--"+outer)
	for _, o := range list {
		if o.rev == nil {
			fmt.Fprint(w, "\r\nContent-Type: application/json; error=\"true\"\r\n\r\n")
			w.Write(object(member{"missing", quote(o.missing)}))
		} else if following := v.following(o.rev); len(following) > 0 {
			fmt.Fprint(w, "\r\nContent-Type: multipart/related; boundary=\""+inner+"\"\r\n\r\n")
			w.Write(related(inner, v.show(d, o.rev, follows), following))
		} else {
			fmt.Fprint(w, "\r\nContent-Type: application/json\r\n\r\n")
			w.Write(v.show(d, o.rev, follows))
		}
		fmt.Fprint(w, "\r\n--"+outer)
	}
	fmt.Fprint(w, "--")
	return nil
}

// allDocs lists the documents that are not deleted, in the order of their ids.
func (f *Fake) allDocs(w http.ResponseWriter, r *http.Request, db *database) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	var asked struct{ Keys []string }
	if text := q.Get("keys"); text != "" {
		body = []byte(`{"keys":` + text + `}`)
	}
	if len(body) > 0 && json.Unmarshal(body, &asked) != nil {
		return badRequest("invalid UTF-8 JSON")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := asked.Keys
	total := 0
	for id, d := range db.docs {
		if !d.winner().deleted {
			total++
			if asked.Keys == nil {
				ids = append(ids, id)
			}
		}
	}
	if asked.Keys == nil {
		slices.Sort(ids)
		ids = between(ids, q)
	}
	v := parseView(q)
	var rows []string
	for _, id := range ids {
		rows = append(rows, string(allDocsRow(db.docs[id], id, v, q.Get("include_docs") == "true")))
	}
	return writeJSON(w, http.StatusOK, []byte(`{"total_rows":`+string(number(total))+`,"offset":0,"rows":[`+"\r\n"+
		strings.Join(rows, ",\r\n")+"\r\n]}"))
}

// localDocs lists the documents that do not replicate, in the order of their ids.
func (f *Fake) localDocs(w http.ResponseWriter, r *http.Request, db *database) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	rows := []string{}
	for _, id := range between(slices.Sorted(maps.Keys(db.local)), r.URL.Query()) {
		rev := quote("0-" + strconv.Itoa(db.local[id].rev))
		rows = append(rows, string(object(member{"id", quote(id)}, member{"key", quote(id)}, member{"value", object(member{"rev", rev})})))
	}
	return writeJSON(w, http.StatusOK, []byte(`{"total_rows":null,"offset":null,"rows":[`+"\r\n"+strings.Join(rows, ",\r\n")+"\r\n]}"))
}

func allDocsRow(d *document, id string, v view, includeDocs bool) []byte {
	if d == nil {
		return object(member{"key", quote(id)}, member{"error", quote("not_found")})
	}
	winner := d.winner()
	row := []member{
		{"id", quote(id)}, {"key", quote(id)},
		{"value", object(member{"rev", quote(winner.name())}, member{"deleted", yes(winner.deleted)})},
	}
	switch {
	case includeDocs && winner.deleted:
		row = append(row, member{"doc", []byte("null")})
	case includeDocs:
		row = append(row, member{"doc", v.show(d, winner, v.embedded())})
	}
	return object(row...)
}

// between applies the parameters startkey, endkey, skip and limit of a request to sorted ids.
func between(ids []string, q url.Values) []string {
	key := func(names ...string) (s string, ok bool) {
		for _, name := range names {
			if text := q.Get(name); text != "" && json.Unmarshal([]byte(text), &s) == nil {
				return s, true
			}
		}
		return "", false
	}
	if start, ok := key("startkey", "start_key", "key"); ok {
		i, _ := slices.BinarySearch(ids, start)
		ids = ids[i:]
	}
	if end, ok := key("endkey", "end_key", "key"); ok {
		i, found := slices.BinarySearch(ids, end)
		if found && q.Get("inclusive_end") != "false" {
			i++
		}
		ids = ids[:i]
	}
	count := func(name string, otherwise int) int {
		var n int
		if json.Unmarshal([]byte(q.Get(name)), &n) != nil {
			return otherwise
		}
		return min(n, len(ids))
	}
	ids = ids[count("skip", 0):]
	return ids[:count("limit", len(ids))]
}
