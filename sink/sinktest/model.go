package sinktest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
)

func contentID(n int) string { return fmt.Sprintf("<%d@example.com>", n) }
func stamp(n int) time.Time  { return time.Unix(1_700_000_000+int64(n), 0).UTC() }
func number(id string) int {
	digits, _, _ := strings.Cut(strings.TrimPrefix(id, "<"), "@")
	n, _ := strconv.Atoi(digits) // "" is 0
	return n
}

func entity(n int, operation feed.Operation, key, contentType, body string) *feed.Entity {
	return &feed.Entity{
		ContentID:       contentID(n),
		Operation:       operation,
		LastModified:    stamp(n),
		ContentType:     contentType,
		ContentLocation: feed.EncodeKey(key),
		Header:          []feed.Field{{Name: "X-Number", Value: strconv.Itoa(n)}, {Name: "X-List", Value: "a"}, {Name: "x-list", Value: "b"}},
		Body:            []byte(body),
	}
}

func put(n int, key, body string) *feed.Entity {
	return entity(n, feed.Put, key, "application/json", body)
}

// record returns the record of an entity that is not a patch.
func record(e *feed.Entity, body []byte) Record {
	r := Record{
		Key:          e.Key(),
		Operation:    e.Operation,
		ContentType:  e.ContentType,
		ContentID:    e.ContentID,
		LastModified: e.LastModified,
		Body:         body,
	}
	if r.Operation == "" {
		r.Operation = feed.Put
	}
	for _, f := range e.Header {
		if r.Header == nil {
			r.Header = map[string][]string{}
		}
		name := f.Name
		for known := range r.Header {
			if strings.EqualFold(known, name) {
				name = known
			}
		}
		r.Header[name] = append(r.Header[name], f.Value)
	}
	return r
}

// A document is the body of a generated entity. Its patches are not idempotent: to apply one twice
// yields a different document.
type document struct {
	key string
	log []int
	rev int
}

func (d document) json() string {
	log := strings.ReplaceAll(fmt.Sprint(d.log), " ", ",")
	return fmt.Sprintf(`{"id":%q,"log":%s,"rev":%d}`, d.key, log, d.rev)
}

// A generator generates a deterministic endless feed, and the expected contents of a
// sink.
type generator struct {
	n         int // entities generated so far
	keys      int // number of keys
	random    *rand.Rand
	documents map[string]document
	state     map[string]Record
	log       []Record
}

func newGenerator() *generator {
	return &generator{
		keys:      4,
		random:    rand.New(rand.NewPCG(1, 2)),
		documents: map[string]document{},
		state:     map[string]Record{},
	}
}

func (g *generator) next() *feed.Entity {
	g.n++
	key := fmt.Sprintf("thing/%d", g.random.IntN(g.keys))
	d, found := g.documents[key]
	var e *feed.Entity
	switch kind := g.random.IntN(10); {
	case kind == 0:
		e = entity(g.n, feed.Delete, key, "application/json", "")
		delete(g.documents, key)
		delete(g.state, key)
		g.log = append(g.log, record(e, nil))
		return e
	case kind < 4 && found:
		d.log = append(slices.Clone(d.log), g.n)
		e = entity(g.n, feed.Patch, key, "application/json-patch+json", fmt.Sprintf(`[{"op":"add","path":"/log/-","value":%d}]`, g.n))
	case kind < 6 && found:
		d.rev = g.n
		e = entity(g.n, feed.Patch, key, "application/merge-patch+json", fmt.Sprintf(`{"rev":%d}`, g.n))
	default:
		d = document{key: key}
		if g.random.IntN(30) == 0 {
			d.key = strings.Repeat("x", sink.MaxInline/32)
		}
		e = put(g.n, key, d.json())
	}
	g.documents[key] = d
	g.log = append(g.log, record(e, e.Body))
	r := record(e, []byte(d.json()))
	if e.Operation == feed.Patch {
		r.Operation, r.ContentType, r.Header = feed.Put, g.state[key].ContentType, g.state[key].Header
	}
	g.state[key] = r
	if g.random.IntN(8) == 0 {
		e.Stream, e.Size, e.Body = bytes.NewReader(e.Body), int64(len(e.Body)), nil
	}
	return e
}

// skip generates entities until n have been generated in total.
func (g *generator) skip(n int) {
	for g.n < n {
		g.next()
	}
}

func (g *generator) records(log bool) []Record {
	if log {
		return slices.Clone(g.log)
	}
	return slices.Collect(maps.Values(g.state))
}

// digest returns a digest of a long body, and a short body unchanged, for readable diffs.
func digest(body []byte) []byte {
	if len(body) <= 256 {
		return body
	}
	return fmt.Appendf(nil, "%d bytes, SHA-256 %x: %q...", len(body), sha256.Sum256(body), body[:64])
}

// check compares the contents of the sink in dir with the expected ones.
func (s suite) check(t *testing.T, dir string, want ...Record) {
	t.Helper()
	got, err := s.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if s.Keeps != nil {
		for i := range want {
			want[i] = s.Keeps(want[i])
		}
	}
	for _, records := range [][]Record{want, got} {
		for i := range records {
			records[i].Body = digest(records[i].Body)
		}
	}
	options := cmp.Options{cmpopts.EquateEmpty()}
	if !s.Log {
		options = append(options,
			cmpopts.IgnoreFields(Record{}, "Operation"),
			cmpopts.SortSlices(func(a, b Record) bool { return a.Key < b.Key }))
	}
	if !cmp.Equal(want, got, options) {
		diff := cmp.Diff(want, got, options)
		t.Fatalf("wrong contents of the sink (-want +got):\n%.4000s", diff)
	}
}
