package couchtest

import (
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
)

// shards is the number of parts of a database, each with a sequence of its own.
const shards = 2

// A database holds documents and the order of their updates.
type database struct {
	name    string
	number  int // the position of the database among all that were created
	gone    bool
	docs    map[string]*document
	local   map[string]*localDoc
	log     [shards][]entry
	rewinds []vector // the points to which the shards were rewound
}

// A localDoc is a document that does not replicate.
type localDoc struct {
	rev     int
	members []member
}

// An entry is an update of a shard. The entry at index n has the sequence n+1. It is in the feed as long as
// it is the last update of its document.
type entry struct {
	doc *document
	row string // if set, a row to be sent literally, instead of one for a document
}

func (db *database) live(shard, seq int) bool {
	e := db.log[shard][seq-1]
	return e.row != "" || e.doc.seq == seq
}

// validName matches the valid names of databases, except _users and the like.
var validName = regexp.MustCompile(`^[a-z][a-z0-9_$()+/-]*$`)

var errNoDatabase = &failure{http.StatusNotFound, "not_found", "Database does not exist."}

// create adds a database. The caller must hold f.mu.
func (f *Fake) create(name string) {
	f.created++
	f.databases[name] = &database{name: name, number: f.created, docs: map[string]*document{}, local: map[string]*localDoc{}}
	f.event("created", f.databases[name])
}

func (f *Fake) databaseRequest(w http.ResponseWriter, r *http.Request, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	db := f.databases[name]
	ok := []byte(`{"ok":true}`)
	switch {
	case r.Method == http.MethodPut && db != nil:
		return &failure{http.StatusPreconditionFailed, "file_exists", "The database could not be created, the file already exists."}
	case r.Method == http.MethodPut && !validName.MatchString(name):
		return &failure{http.StatusBadRequest, "illegal_database_name", "Name: '" + name + "'. Only lowercase characters (a-z), " +
			"digits (0-9), and any of the characters _, $, (, ), +, -, and / are allowed. Must begin with a letter."}
	case r.Method == http.MethodPut:
		f.create(name)
		return writeJSON(w, http.StatusCreated, ok)
	case db == nil:
		return errNoDatabase
	case r.Method == http.MethodDelete:
		delete(f.databases, name)
		db.gone = true
		f.event("deleted", db)
		f.change()
		return writeJSON(w, http.StatusOK, ok)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return writeJSON(w, http.StatusOK, f.info(db))
	}
	return &failure{http.StatusMethodNotAllowed, "method_not_allowed", "Only DELETE,GET,HEAD,POST,PUT allowed"}
}

// startTime returns the instance_start_time of a database, as JSON.
func (f *Fake) startTime(db *database) []byte {
	if f.OldStartTime {
		return quote("0")
	}
	return quote(strconv.Itoa(1_700_000_000 + db.number))
}

func (f *Fake) info(db *database) []byte {
	documents, tombstones := 0, 0
	for _, d := range db.docs {
		if d.winner().deleted {
			tombstones++
		} else {
			documents++
		}
	}
	return object(
		member{"instance_start_time", f.startTime(db)},
		member{"db_name", quote(db.name)},
		member{"purge_seq", quote("0-g1AAAABXeJz")},
		member{"update_seq", f.endToken(db)},
		member{"sizes", []byte(`{"file":37244,"external":35,"active":936}`)},
		member{"props", []byte(`{}`)},
		member{"doc_del_count", number(tombstones)},
		member{"doc_count", number(documents)},
		member{"disk_format_version", number(8)},
		member{"compact_running", []byte(`false`)},
		member{"cluster", fmt.Appendf(nil, `{"q":2,"n":%d,"w":1,"r":1}`, max(f.Copies, 1))},
	)
}

func (f *Fake) ensureFullCommit(w http.ResponseWriter, _ *http.Request, db *database) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return writeJSON(w, http.StatusCreated, object(member{"ok", yes(true)}, member{"instance_start_time", f.startTime(db)}))
}

// document returns the document with an id, or a new one if there is none. The caller must hold f.mu.
func (db *database) document(id string) *document {
	d := db.docs[id]
	if d == nil {
		h := fnv.New32a()
		h.Write([]byte(id))
		d = &document{id: id, revs: map[string]*revision{}, shard: int(h.Sum32() % shards)}
	}
	return d
}

// updated puts a document at the end of its shard. The caller must hold f.mu.
func (f *Fake) updated(db *database, d *document) {
	db.docs[d.id] = d
	db.log[d.shard] = append(db.log[d.shard], entry{doc: d})
	d.seq = len(db.log[d.shard])
	f.event("updated", db)
	f.change()
}

// local handles requests for documents that do not replicate. The number of a new revision is one more than
// that of the revision that the update names, which need not be the current one.
func (f *Fake) local(w http.ResponseWriter, r *http.Request, db *database, id string) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	have := db.local[id]
	if have == nil {
		have = new(localDoc)
	}
	rev := member{"_rev", quote("0-" + strconv.Itoa(have.rev))}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if db.local[id] == nil {
			return errMissing
		}
		return writeJSON(w, http.StatusOK, object(append([]member{{"_id", quote(id)}, rev}, have.members...)...))
	case http.MethodPut:
		members, err := parseObject(body)
		if err != nil {
			return badRequest("Document must be a JSON object")
		}
		given := []byte(`"0-0"`)
		members = slices.DeleteFunc(members, func(m member) bool {
			if m.name == "_rev" {
				given = m.value
			}
			return m.name == "_rev" || m.name == "_id" || m.name == "_revisions"
		})
		var n int
		if _, err := fmt.Sscanf(string(given), `"0-%d"`, &n); err != nil {
			return badRequest("Invalid rev format")
		}
		have = &localDoc{n + 1, members}
		db.local[id] = have
		w.Header().Set("ETag", `"0-`+strconv.Itoa(have.rev)+`"`)
		return writeJSON(w, http.StatusCreated, written(id, "0-"+strconv.Itoa(have.rev)))
	case http.MethodDelete:
		if db.local[id] == nil {
			return errMissing
		}
		delete(db.local, id)
		return writeJSON(w, http.StatusOK, written(id, "0-0"))
	}
	return &failure{http.StatusMethodNotAllowed, "method_not_allowed", "Only DELETE,GET,HEAD,PUT allowed"}
}

// written returns the body of the response to a write.
func written(id, rev string) []byte {
	return object(member{"ok", yes(true)}, member{"id", quote(id)}, member{"rev", quote(rev)})
}
