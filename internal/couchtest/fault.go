package couchtest

import (
	"net/http"
	"path"
	"strconv"

	"github.com/feedctl/feedctl/internal/httpfault"
)

// A Fault responds to a request in place of the handler, or damages its response.
type Fault = httpfault.Fault

// On returns a function that matches requests by their method and by a part of their path and query. An
// empty string matches any.
func On(method, part string) func(*http.Request) bool { return httpfault.On(method, part) }

// Refuse responds with an error, such as 429 "too_many_requests". header holds pairs of names and values.
func Refuse(status int, code, reason string, header ...string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		writeFailure(w, &failure{status, code, reason})
	}
}

// TooManyRequests responds with 429 and asks the client to wait for some seconds.
func TooManyRequests(seconds int) Fault {
	return Refuse(http.StatusTooManyRequests, "too_many_requests", "You've exceeded your current limit.",
		"Retry-After", strconv.Itoa(seconds))
}

// Cut breaks the connection after some bytes of the body, before the last chunk is sent.
func Cut(after int) Fault { return httpfault.Cut(after) }

// Stall sends some bytes of the body and then nothing more, not even a heartbeat, until the client
// disconnects or the channel is closed. Each value that is sent to the channel lets one more write through,
// so that rows arrive slowly.
func Stall(after int, release <-chan struct{}) Fault { return httpfault.Stall(after, release) }

// Edit changes the bodies of responses that are not feeds.
func Edit(edit func(body []byte) []byte) Fault {
	return func(w http.ResponseWriter, r *http.Request, healthy http.HandlerFunc) {
		healthy(&editedWriter{w, edit}, r)
	}
}

type editedWriter struct {
	http.ResponseWriter
	edit func([]byte) []byte
}

func (w *editedWriter) Write(p []byte) (int, error) {
	if _, err := w.ResponseWriter.Write(w.edit(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Rewind rewinds the feeds of a database to seq, which was sent earlier, or to the beginning if seq is ""
// or "0". Open feeds, and feeds that start at any sequence sent so far, continue there. Sequences that are
// sent later are not affected.
func (f *Fake) Rewind(database, seq string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	db := f.byURL(database)
	to, err := db.since(seq)
	if err != nil {
		panic(err) // seq is not from this fake
	}
	db.rewinds = append(db.rewinds, to)
	f.change()
}

// AddRow adds a row to the feed of a database. The row is sent as it is, with the sequence in place of SEQ.
func (f *Fake) AddRow(database, row string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	db := f.byURL(database)
	db.log[0] = append(db.log[0], entry{row: row})
	f.event("updated", db)
	f.change()
}

// AddDoc stores a document with any id, which may be empty or not UTF-8, and returns
// its revision. Content is a JSON object without _id.
func (f *Fake) AddDoc(database, id, content string) string {
	in, err := f.parseInput([]byte(content))
	if err != nil {
		panic(err) // the test's own
	}
	in.id = id
	f.mu.Lock()
	defer f.mu.Unlock()
	rev, err := f.store(f.byURL(database), in, true, nil)
	if err != nil {
		panic(err)
	}
	return rev
}

// Purge removes a document without a trace in the feed.
func (f *Fake) Purge(database, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	db := f.byURL(database)
	if d := db.docs[id]; d != nil {
		delete(db.docs, id)
		d.seq = 0
	}
}

// Delete removes a database while feeds are open; [Fake.Create] makes a new one with the same name.
func (f *Fake) Delete(database string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.byURL(database).gone = true
	f.event("deleted", f.byURL(database))
	delete(f.databases, path.Base(database))
	f.change()
}

// Create creates a database.
func (f *Fake) Create(database string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.create(path.Base(database))
}
