package couchtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// globalChanges is the database in which CouchDB records what happens to databases: a document
// for each type of event and database, with an update for each event.
const globalChanges = "_global_changes"

var errNoAdmin = &failure{http.StatusUnauthorized, "unauthorized", "You are not a server admin."}

// event records what happened to a database, unless the database for events does not exist or the event is to
// be lost. CouchDB does this later, within half a second. The caller must hold f.mu.
func (f *Fake) event(kind string, db *database) {
	global := f.databases[globalChanges]
	if global == nil || db == global {
		return
	}
	if f.lost > 0 {
		f.lost--
		return
	}
	f.updated(global, global.document(kind+":"+db.name))
}

// GlobalChanges creates the database that _db_updates needs.
func (f *Fake) GlobalChanges() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.create(globalChanges)
}

// LoseUpdates hides the next n events from _db_updates.
func (f *Fake) LoseUpdates(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = n
}

// serverRequest handles requests about all databases, which only server admins may make.
func (f *Fake) serverRequest(w http.ResponseWriter, r *http.Request, path string) error {
	switch {
	case f.NoAdmin:
		return errNoAdmin
	case path == "_db_updates" && r.Method == http.MethodGet:
		return f.dbUpdates(w, r)
	case path == "_db_updates":
		return &failure{http.StatusMethodNotAllowed, "method_not_allowed", "Only GET allowed"}
	case r.Method == http.MethodPost:
		return f.dbsInfo(w, r)
	}
	return &failure{http.StatusMethodNotAllowed, "method_not_allowed", "Only GET,HEAD,POST allowed"}
}

// dbsInfo responds with information about databases, in the order in which the request names them.
func (f *Fake) dbsInfo(w http.ResponseWriter, r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var asked struct{ Keys []string }
	if err := json.Unmarshal(body, &asked); err != nil {
		return badRequest("invalid UTF-8 JSON")
	}
	if asked.Keys == nil {
		return badRequest("`keys` member must exist.")
	}
	if len(asked.Keys) > f.MaxInfos {
		return badRequest("too_many_keys")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var all [][]byte
	for _, name := range asked.Keys {
		if db := f.databases[name]; db != nil {
			all = append(all, object(member{"key", quote(name)}, member{"info", f.info(db)}))
		} else {
			all = append(all, object(member{"key", quote(name)}, member{"error", quote("not_found")}))
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.Write(array(all...)) // and no newline
	return nil
}

// dbUpdates responds with the events of all databases. The response ends at once, or continues for as long as
// the client reads.
func (f *Fake) dbUpdates(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	f.mu.Lock()
	db := f.databases[globalChanges]
	if db == nil {
		f.mu.Unlock()
		return errNoDatabase
	}
	at, err := db.since(q.Get("since"))
	s := &feed{f: f, w: w, r: r, q: q, cursor: cursor{db: db, random: f.random, at: at, seen: len(db.rewinds)}, limit: -1, interval: 1}
	f.mu.Unlock()
	if err != nil {
		return err
	}
	switch kind := q.Get("feed"); kind {
	case "", "normal":
		w.Header().Set("Cache-Control", "must-revalidate")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "{\"results\":[\n")
		for separator := ""; ; separator = ",\r\n" {
			row, ok := s.event()
			if !ok {
				break
			}
			fmt.Fprintf(w, "%s%s", separator, row)
		}
		fmt.Fprintf(w, "\n],\n\"last_seq\":%s}\n", s.position())
		return nil
	case "continuous":
		s.events()
		return nil
	}
	return badRequest("Supported `feed` types: normal, continuous, longpoll, eventsource")
}

// event returns the next event as a row of _db_updates.
func (s *feed) event() (row []byte, ok bool) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	e, ok := s.cursor.next()
	if !ok {
		return nil, false
	}
	kind, name, _ := strings.Cut(e.doc.id, ":")
	return object(member{"db_name", quote(name)}, member{"type", quote(kind)}, member{"seq", s.f.token(s.cursor.db, s.cursor.at)}), true
}

func (s *feed) position() []byte {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return s.f.token(s.cursor.db, s.cursor.at)
}

// events sends events, one on each line, until the client disconnects, the timeout passes without an event,
// or the database is deleted. The header is sent with the first line or heartbeat.
func (s *feed) events() {
	s.w.Header().Set("Cache-Control", "must-revalidate")
	s.w.Header().Set("Content-Type", "application/json")
	var beat, end <-chan time.Time
	if text := s.q.Get("heartbeat"); text != "" && text != "false" {
		ticker := time.NewTicker(milliseconds(text))
		defer ticker.Stop()
		beat = ticker.C
	} else {
		timer := time.NewTimer(milliseconds(s.q.Get("timeout")))
		defer timer.Stop()
		end = timer.C
	}
	for going := true; going; {
		s.f.mu.Lock()
		changed, gone := s.f.changed, s.cursor.db.gone
		s.f.mu.Unlock()
		var sent bytes.Buffer
		for row, ok := s.event(); ok; row, ok = s.event() {
			sent.Write(append(row, '\n'))
		}
		if sent.Len() > 0 {
			s.w.Write(sent.Bytes())
			_ = http.NewResponseController(s.w).Flush() // an error is reported by the next write
		}
		if gone {
			break
		}
		select {
		case <-changed:
		case <-beat:
			fmt.Fprint(s.w, "\n")
			_ = http.NewResponseController(s.w).Flush()
		case <-end:
			going = false
		case <-s.r.Context().Done():
			return
		}
	}
	fmt.Fprintf(s.w, "{\"last_seq\":%s}\n", s.position())
}
