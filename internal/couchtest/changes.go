package couchtest

import (
	"crypto/md5"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A feed is one request for _changes.
type feed struct {
	f      *Fake
	w      http.ResponseWriter
	r      *http.Request
	q      url.Values
	cursor cursor
	filter func(d *document) bool // nil: all
	view   view

	kind     string
	limit    int // how many rows may still be sent; negative: no limit
	interval int // every interval-th row has a sequence
	rows     int // how many rows were sent
	total    int // number of rows after the start
}

// changes responds with a feed of one of the types normal, longpoll and continuous.
func (f *Fake) changes(w http.ResponseWriter, r *http.Request, db *database) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	s := &feed{f: f, w: w, r: r, q: q, view: parseView(q), kind: q.Get("feed"), limit: -1, interval: 1}
	switch s.kind {
	case "":
		s.kind = "normal"
	case "live":
		s.kind = "continuous"
	case "normal", "continuous", "longpoll":
	default:
		return badRequest("Supported `feed` types: normal, continuous, live, longpoll, eventsource")
	}
	if err := s.count("limit", &s.limit); err != nil {
		return err
	}
	if err := s.count("seq_interval", &s.interval); err != nil {
		return err
	}
	if s.filter, err = f.filter(q, body); err != nil {
		return err
	}
	f.mu.Lock()
	s.cursor = cursor{db: db, random: f.random, seen: len(db.rewinds)}
	s.cursor.at, err = db.since(q.Get("since"))
	s.total = s.cursor.pending()
	etag := fmt.Sprintf("%q", fmt.Sprintf("%X", md5.Sum(fmt.Append(nil, db.number, db.end(), len(db.rewinds)))))
	f.mu.Unlock()
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "must-revalidate")
	w.Header().Set("Content-Type", "application/json")
	if s.kind == "normal" {
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	if s.kind == "continuous" {
		s.continuous()
	} else {
		s.batch()
	}
	return nil
}

func (s *feed) count(name string, n *int) error {
	text := s.q.Get(name)
	if text == "" {
		return nil
	}
	var err error
	if *n, err = strconv.Atoi(text); err != nil || *n < 0 {
		return badRequest("Invalid value for " + name)
	}
	return nil
}

// A selector holds members that a document must have, with their values. Operators are not supported.
type selector map[string]json.RawMessage

func (want selector) matches(doc []byte) bool {
	var have map[string]json.RawMessage
	if json.Unmarshal(doc, &have) != nil {
		return false
	}
	for name, value := range want {
		if string(have[name]) != string(value) {
			return false
		}
	}
	return true
}

// filter returns the filter of a request, or nil if all documents pass.
func (f *Fake) filter(q url.Values, body []byte) (func(d *document) bool, error) {
	var asked struct {
		DocIDs   []string `json:"doc_ids"`
		Selector selector
	}
	if len(body) > 0 && json.Unmarshal(body, &asked) != nil {
		return nil, badRequest("invalid UTF-8 JSON")
	}
	winner := func(match func([]byte) bool) func(*document) bool {
		return func(d *document) bool { return match(view{}.show(d, d.winner(), stub)) }
	}
	name := q.Get("filter")
	switch name {
	case "":
		return nil, nil
	case "_doc_ids":
		if text := q.Get("doc_ids"); text != "" && json.Unmarshal([]byte(text), &asked.DocIDs) != nil {
			return nil, badRequest("`doc_ids` filter parameter is not a list of doc ids.")
		}
		return func(d *document) bool { return slices.Contains(asked.DocIDs, d.id) }, nil
	case "_selector":
		if asked.Selector == nil {
			return nil, badRequest("Selector must be specified in POST payload")
		}
		return winner(asked.Selector.matches), nil
	case "_design":
		return func(d *document) bool { return strings.HasPrefix(d.id, "_design/") }, nil
	case "_view":
		name = q.Get("view")
	}
	match := f.Filters[name]
	if match == nil {
		return nil, &failure{http.StatusNotFound, "not_found", "missing json key: filters"}
	}
	return winner(func(doc []byte) bool { return match(doc, q) }), nil
}

// row returns the next row that passes the filter; ok is false at the end.
func (s *feed) row() (row []byte, ok bool) {
	if s.limit == 0 {
		return nil, false
	}
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	for {
		e, ok := s.cursor.next()
		if !ok {
			return nil, false
		}
		if e.row == "" && s.filter != nil && !s.filter(e.doc) {
			continue
		}
		s.limit--
		s.rows++
		seq := []byte("null")
		if s.interval <= 1 || (s.rows+1)%s.interval == 0 {
			seq = s.f.token(s.cursor.db, s.cursor.at)
		}
		if e.row != "" {
			return []byte(strings.ReplaceAll(e.row, "SEQ", string(seq))), true
		}
		return s.format(e.doc, seq), true
	}
}

func (s *feed) format(d *document, seq []byte) []byte {
	leaves := d.leaves()
	winner := leaves[0]
	if s.q.Get("style") != "all_docs" {
		leaves = leaves[:1]
	}
	var changes [][]byte
	for _, r := range leaves {
		changes = append(changes, object(member{"rev", quote(r.name())}))
	}
	row := []member{
		{"seq", seq}, {"id", quote(d.id)}, {"changes", array(changes...)}, {"deleted", yes(winner.deleted)},
	}
	if s.q.Get("include_docs") == "true" {
		row = append(row, member{"doc", s.view.show(d, winner, s.view.embedded())})
	}
	return object(row...)
}

// end returns the members at the end of a feed. As in CouchDB, pending rows are counted without regard to
// the filter.
func (s *feed) end() []byte {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	pending := s.cursor.pending()
	if s.filter != nil {
		pending = max(s.total-s.rows, 0)
	}
	return object(member{"last_seq", s.f.token(s.cursor.db, s.cursor.at)}, member{"pending", number(pending)})
}

// batch sends a feed of type normal, or one of type longpoll, which waits for its first row.
func (s *feed) batch() {
	fmt.Fprint(s.w, "{\"results\":[\n")
	if s.kind == "longpoll" {
		s.wait()
	}
	for separator := ""; ; separator = ",\r\n" {
		row, ok := s.row()
		if !ok {
			break
		}
		fmt.Fprint(s.w, separator)
		s.w.Write(row)
	}
	fmt.Fprint(s.w, "\n],\n")
	s.w.Write(s.end()[1:]) // without the brace
	fmt.Fprint(s.w, "\n\n")
}

// continuous sends rows, one on each line, until the client disconnects, the limit is reached, the timeout
// passes without a row, or the database is deleted.
func (s *feed) continuous() {
	for {
		row, ok := s.row()
		if ok {
			s.w.Write(append(row, '\n'))
			continue
		}
		if s.limit == 0 || !s.wait() {
			break
		}
	}
	if s.r.Context().Err() == nil {
		s.w.Write(append(s.end(), "\n\n"...))
	}
}

// wait flushes the response, and sends heartbeats until there is another row to send. It then returns true,
// or false if the feed ends first.
func (s *feed) wait() bool {
	fmt.Fprint(s.w, "\n")
	controller := http.NewResponseController(s.w)
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
	for {
		s.f.mu.Lock()
		changed, gone := s.f.changed, s.cursor.db.gone
		ahead := s.cursor // a copy
		for {
			e, ok := ahead.next()
			if !ok {
				break
			}
			if e.row != "" || s.filter == nil || s.filter(e.doc) {
				s.f.mu.Unlock()
				return true
			}
		}
		s.f.mu.Unlock()
		if gone {
			return false
		}
		_ = controller.Flush() // an error is reported by the next write
		select {
		case <-changed:
		case <-beat:
			fmt.Fprint(s.w, "\n")
		case <-end:
			return false
		case <-s.r.Context().Done():
			return false
		}
	}
}

// milliseconds parses a duration. The result is at most a minute, which is also the default.
func milliseconds(text string) time.Duration {
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		return time.Minute
	}
	return min(time.Duration(n)*time.Millisecond, time.Minute)
}
