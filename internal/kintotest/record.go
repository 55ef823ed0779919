package kintotest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// validID is the default form of the ids of records; names of buckets and collections may
// begin with other characters.
var validID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]*$`)

// owner is the user that all permissions name.
const owner = "basicauth:fake"

// root handles GET /v1/.
func (f *Fake) root() answer {
	capabilities := map[string]any{"default_bucket": map[string]any{}, "flush_endpoint": map[string]any{}}
	if f.Changes {
		capabilities["changes"] = map[string]any{}
	}
	return reply(http.StatusOK, map[string]any{
		"project_name": "kinto", "project_version": "26.5.0", "http_api_version": "1.23",
		"settings":     map[string]any{"batch_max_requests": f.Batch, "readonly": false, "explicit_permissions": true},
		"user":         map[string]any{"id": owner, "principals": []string{owner, "system.Everyone", "system.Authenticated"}, "bucket": "fake"},
		"capabilities": capabilities,
	})
}

// byURL returns the collection with a URL. The caller must hold f.mu.
func (f *Fake) byURL(collection string) *collection {
	b, name := path.Base(path.Dir(path.Dir(collection))), path.Base(collection)
	if f.buckets[b] == nil || f.buckets[b].collections[name] == nil {
		panic("no collection " + collection) // the test's own
	}
	return f.buckets[b].collections[name]
}

// tick returns a new stamp for a bucket or collection.
func (f *Fake) tick() int64 {
	f.stamp = max(time.Now().UnixMilli(), f.stamp+1)
	return f.stamp
}

func (f *Fake) bucket(q *call, id string) answer {
	b := f.buckets[id]
	var was *row
	if b != nil {
		was = b.row
	}
	return f.container(q, "bucket", id, was, func(r *row) {
		switch {
		case r == nil:
			delete(f.buckets, id)
		case b == nil:
			f.buckets[id] = &bucket{row: r, collections: map[string]*collection{}}
		default:
			b.row = r
		}
	})
}

func (f *Fake) collection(q *call, b *bucket, id string) answer {
	c := b.collections[id]
	var was *row
	if c != nil {
		was = c.row
	}
	return f.container(q, "collection", id, was, func(r *row) {
		switch {
		case r == nil:
			delete(b.collections, id)
		case c == nil:
			b.collections[id] = &collection{row: r, rows: newRows()}
		default:
			c.row = r
		}
	})
}

// container carries out a call for a bucket or a collection. If the bucket or collection does not
// exist, was is nil.
func (f *Fake) container(q *call, kind, id string, was *row, set func(*row)) answer {
	if failed, a := writePreconditions(q, was); failed {
		return a
	}
	if was == nil && q.method != http.MethodPut {
		return notFound(110, kind, id)
	}
	switch q.method {
	case http.MethodGet, http.MethodHead:
		return resource(http.StatusOK, was)
	case http.MethodDelete:
		set(nil)
		return reply(http.StatusOK, map[string]any{"data": map[string]any{"id": id, "last_modified": f.tick(), "deleted": true}})
	case http.MethodPut, http.MethodPatch:
		members, _, bad := q.data(id)
		if bad != nil {
			return *bad
		}
		if q.method == http.MethodPatch {
			members = merge(was.members, members)
		}
		r := newRow(id, f.tick(), members)
		set(r)
		return resource(created(was), r)
	}
	return failure(http.StatusMethodNotAllowed, 115, "Method Not Allowed", "Method not allowed on this endpoint.", nil)
}

// merge merges a patch into members (RFC 7396, except for nested objects).
func merge(members, patch map[string]json.RawMessage) map[string]json.RawMessage {
	merged := maps.Clone(members)
	for name, value := range patch {
		if merged[name] = value; string(value) == "null" {
			delete(merged, name)
		}
	}
	return merged
}

func created(was *row) int {
	if was == nil {
		return http.StatusCreated
	}
	return http.StatusOK
}

// record carries out a call for a record.
func (f *Fake) record(q *call, c *collection, id string) answer {
	if !validID.MatchString(id) {
		return invalid("path", "", "Invalid object id")
	}
	was := c.rows.live(id)
	if failed, a := writePreconditions(q, was); failed {
		return a
	}
	if was == nil && q.method != http.MethodPut {
		return notFound(110, "record", id)
	}
	switch q.method {
	case http.MethodGet, http.MethodHead:
		return resource(http.StatusOK, was)
	case http.MethodDelete:
		given, _ := strconv.ParseInt(strings.Trim(q.query.Get("last_modified"), `"`), 10, 64)
		r := tombstone(id, f.stampFor(c.rows, was, given))
		f.store(c.rows, r)
		return answer{http.StatusOK, stamps(r.stamp), []byte(`{"data":` + string(r.text) + `}`)}
	case http.MethodPut, http.MethodPatch:
		members, given, bad := q.data(id)
		if bad != nil {
			return *bad
		}
		if q.method == http.MethodPatch {
			members = merge(was.members, members)
		}
		return f.write(c, id, was, members, given)
	}
	return failure(http.StatusMethodNotAllowed, 115, "Method Not Allowed", "Method not allowed on this endpoint.", nil)
}

// write stores a record.
func (f *Fake) write(c *collection, id string, was *row, members map[string]json.RawMessage, given int64) answer {
	stamp := f.stampFor(c.rows, was, given)
	if stamp == given && c.rows.taken(stamp) {
		a := failure(http.StatusConflict, 122, "Conflict", "Integrity constraint violated, please retry.", nil)
		a.header.Set("Retry-After", "1")
		return a
	}
	for _, value := range members {
		escapes := bytes.ReplaceAll(value, []byte(`\\`), nil)
		if bytes.Contains(escapes, []byte(`\u0000`)) {
			return unavailable
		}
	}
	r := newRow(id, stamp, members)
	f.store(c.rows, r)
	return resource(created(was), r)
}

// stampFor returns the stamp of a change. given is the stamp that the client asks for, or 0.
func (f *Fake) stampFor(l *rows, was *row, given int64) int64 {
	if given > 0 && (was == nil || given > was.stamp) {
		return given
	}
	return l.next()
}

// post handles POST requests to the list of records.
func (f *Fake) post(q *call, c *collection) answer {
	members, given, bad := q.data("")
	if bad != nil {
		return *bad
	}
	var id string
	if json.Unmarshal(members["id"], &id) != nil || id == "" {
		id = fmt.Sprintf("made-%d", len(c.rows.byID))
	}
	delete(members, "id")
	if was := c.rows.live(id); was != nil {
		return resource(http.StatusOK, was)
	}
	return f.write(c, id, nil, members, given)
}

// deleteAll handles DELETE requests for the list of records. It deletes one page of the list.
func (f *Fake) deleteAll(q *call, c *collection) answer {
	s, bad := f.selection(q.query)
	if bad != nil {
		return *bad
	}
	var texts []string
	for _, r := range s.candidates(c.rows) {
		if len(texts) == s.limit {
			break
		}
		if c.rows.live(r.id) == r && s.matches(r) {
			gone := tombstone(r.id, c.rows.next())
			f.store(c.rows, gone)
			texts = append(texts, string(gone.text))
		}
	}
	return answer{http.StatusOK, stamps(c.rows.timestamp()), []byte(`{"data":[` + strings.Join(texts, ",") + `]}`)}
}

// data returns the members of the object in the body, and separately its stamp. If id is not empty, the
// object may have no other id, and the id is not among the members.
func (q *call) data(id string) (members map[string]json.RawMessage, given int64, bad *answer) {
	refused := func(why string) *answer { a := invalid("body", "data", why); return &a }
	var body struct{ Data json.RawMessage }
	if len(bytes.TrimSpace(q.body)) > 0 {
		if err := json.Unmarshal(q.body, &body); err != nil {
			return nil, 0, refused("Invalid JSON: " + err.Error())
		}
	}
	members = map[string]json.RawMessage{}
	if body.Data != nil {
		var err error
		if members, err = object(body.Data); err != nil {
			return nil, 0, refused(err.Error())
		}
	}
	var inner string
	if text, ok := members["id"]; ok && id != "" && (json.Unmarshal(text, &inner) != nil || inner != id) {
		return nil, 0, refused("id in the body is not that of the path")
	}
	if id != "" {
		delete(members, "id")
	}
	_ = json.Unmarshal(members["last_modified"], &given) // a value of another type is ignored
	delete(members, "last_modified")
	return members, given, nil
}

var errNoObject = errors.New("it is not a mapping type: Does not implement dict-like functionality.")

// object returns the members of an object, with numbers in the form in which the server returns them.
func object(text []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	all, ok := v.(map[string]any)
	if !ok {
		return nil, errNoObject
	}
	members := make(map[string]json.RawMessage, len(all))
	for name, value := range all {
		value, err := normal(value)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(value); err != nil {
			return nil, err
		}
		members[name] = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	}
	return members, nil
}

// normal converts numbers that are not 64-bit integers to float64.
func normal(v any) (_ any, err error) {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			if v[name], err = normal(v[name]); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = normal(v[i]); err != nil {
				return nil, err
			}
		}
	case json.Number:
		if _, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return v, nil
		}
		if _, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return v, nil
		}
		return v.Float64()
	}
	return v, nil
}
