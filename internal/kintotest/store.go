package kintotest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// A bucket is a bucket of a fake.
type bucket struct {
	row         *row
	collections map[string]*collection
}

// list returns the collections as the rows of a list.
func (b *bucket) list() *rows {
	l := newRows()
	for _, c := range b.collections {
		l.put(c.row)
	}
	return l
}

// A collection is a collection of a fake, with its records.
type collection struct {
	row  *row // its metadata
	rows *rows
}

// A row is a record or a tombstone, or the metadata of a bucket or collection. It is immutable.
type row struct {
	id      string
	stamp   int64
	deleted bool
	members map[string]json.RawMessage // without id, last_modified and, in a tombstone, deleted
	text    []byte                     // the JSON text that is sent
}

func newRow(id string, stamp int64, members map[string]json.RawMessage) *row {
	r := &row{id: id, stamp: stamp, members: members}
	r.text = r.render(members)
	return r
}

func tombstone(id string, stamp int64) *row {
	r := &row{id: id, stamp: stamp, deleted: true}
	r.text = strconv.AppendInt([]byte(`{"id":`+quote(id)+`,"last_modified":`), stamp, 10)
	r.text = append(r.text, `,"deleted":true}`...)
	return r
}

// render returns the JSON text of a record that has the given members.
func (r *row) render(members map[string]json.RawMessage) []byte {
	text := []byte{'{'}
	for _, name := range sortedNames(members) {
		text = append(append(text, quote(name)...), ':')
		text = append(append(text, members[name]...), ',')
	}
	text = append(append(text, `"id":`+quote(r.id)...), `,"last_modified":`...)
	return append(strconv.AppendInt(text, r.stamp, 10), '}')
}

func sortedNames(members map[string]json.RawMessage) []string {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { // as JSONB does
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return names
}

func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can be encoded
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// rows holds the records and tombstones of a collection.
type rows struct {
	byID  map[string]*row
	order []*row // by stamp and id; rows that are not in byID are stale
	base  int64  // the timestamp if no row has a higher stamp
}

func newRows() *rows {
	return &rows{byID: map[string]*row{}, base: time.Now().UnixMilli()}
}

func byStamp(a, b *row) int { return cmp.Or(cmp.Compare(a.stamp, b.stamp), cmp.Compare(a.id, b.id)) }

// timestamp returns the timestamp of the collection.
func (l *rows) timestamp() int64 {
	for _, r := range slices.Backward(l.order) {
		if l.byID[r.id] == r {
			return max(l.base, r.stamp)
		}
	}
	return l.base
}

// next returns the stamp for another change.
func (l *rows) next() int64 { return max(time.Now().UnixMilli(), l.timestamp()+1) }

// put stores a row, and returns the one that it replaces.
func (l *rows) put(r *row) (was *row) {
	was = l.byID[r.id]
	l.byID[r.id] = r
	if i, _ := slices.BinarySearchFunc(l.order, r, byStamp); i < len(l.order) {
		l.order = slices.Insert(l.order, i, r)
	} else {
		l.order = append(l.order, r)
	}
	if len(l.order) > 2*len(l.byID)+16 {
		l.order = slices.DeleteFunc(l.order, func(r *row) bool { return l.byID[r.id] != r })
	}
	return was
}

// live returns the record with an id, or nil if there is none.
func (l *rows) live(id string) *row {
	if r := l.byID[id]; r != nil && !r.deleted {
		return r
	}
	return nil
}

// taken reports whether a row has the given stamp.
func (l *rows) taken(stamp int64) bool {
	i, _ := slices.BinarySearchFunc(l.order, &row{stamp: stamp}, byStamp)
	for ; i < len(l.order) && l.order[i].stamp == stamp; i++ {
		if l.byID[l.order[i].id] == l.order[i] {
			return true
		}
	}
	return false
}

// store stores a row of a collection, and adds a function that undoes this to f.undo. The caller
// must hold f.mu.
func (f *Fake) store(l *rows, r *row) {
	was := l.put(r)
	f.undo = append(f.undo, func() {
		if was == nil {
			delete(l.byID, r.id)
			return
		}
		l.put(was)
	})
}

// LateCommit stamps a record now, but stores it only when commit is called, as a long transaction
// does. members is a JSON object.
func (f *Fake) LateCommit(collection, id, members string) (commit func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.byURL(collection)
	data, err := object([]byte(members))
	if err != nil {
		panic(err) // the test's own
	}
	r := newRow(id, c.rows.next(), data)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		c.rows.put(r)
	}
}

// Fill adds n records to a collection. They have the ids "r0", "r1" and so on, and one stamp for
// each millisecond up to now. members returns the JSON object of record i.
func (f *Fake) Fill(collection string, n int, members func(i int) string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.byURL(collection).rows
	first := time.Now().UnixMilli() - int64(n)
	for i := range n {
		data, err := object([]byte(members(i)))
		if err != nil {
			panic(err) // the test's own
		}
		l.put(newRow("r"+strconv.Itoa(i), first+int64(i), data))
	}
}

// Purge removes the tombstones of a collection. This may lower the timestamp of the collection.
func (f *Fake) Purge(collection string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.byURL(collection).rows
	l.base = 0
	for id, r := range l.byID {
		if r.deleted {
			delete(l.byID, id)
		}
	}
	if len(l.byID) == 0 {
		l.base = time.Now().UnixMilli()
	}
}

// Snapshot saves the records of a collection, and returns a function that restores them, as from a
// backup.
func (f *Fake) Snapshot(collection string) (restore func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.byURL(collection)
	saved := make([]*row, 0, len(c.rows.byID))
	for _, r := range c.rows.byID {
		saved = append(saved, r)
	}
	base := c.rows.base
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		c.rows = newRows()
		c.rows.base = base
		for _, r := range saved {
			c.rows.put(r)
		}
	}
}

// unavailable is the answer if the text of a record cannot be stored in PostgreSQL.
var unavailable = answer{
	status: http.StatusServiceUnavailable,
	header: http.Header{"Retry-After": {"1"}},
	body:   []byte(`{"code":503,"errno":201,"error":"Service Unavailable","message":"Service temporary unavailable due to overloading or maintenance, please retry later."}`),
}
