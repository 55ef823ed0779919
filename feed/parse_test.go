package feed_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

func header(lines ...string) page.Header {
	var h page.Header
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h = append(h, page.Field{Name: []byte(name), Value: []byte(value)})
	}
	return h
}

var (
	fullHeader = []string{
		"Operation-Type: http-equiv=PATCH",
		"Content-Type: application/json",
		"Content-ID: <1-A@random-content-id>",
		"X-First: 1",
		"Last-Modified: Mon, 27 Nov 2023 03:10:00 GMT",
		"Content-Length: 5",
		"Content-Location: Europe%2FBerlin",
		"x-second: b",
		"X-First: 2",
	}
	fullEntity = feed.Entity{
		ContentID:       "<1-A@random-content-id>",
		Operation:       feed.Patch,
		LastModified:    time.Date(2023, 11, 27, 3, 10, 0, 0, time.UTC),
		ContentType:     "application/json",
		ContentLocation: "Europe%2FBerlin",
		Header:          []feed.Field{{"X-First", "1"}, {"x-second", "b"}, {"X-First", "2"}},
		Body:            []byte("hello"),
		Size:            5,
	}
)

func TestParse(t *testing.T) {
	var e feed.Entity
	if err := feed.Parse(&e, &page.Part{Header: header(fullHeader...), Body: []byte("hello")}, true); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fullEntity, e); diff != "" {
		t.Error(diff)
	}
}

func TestParseIgnoresCaseOfNames(t *testing.T) {
	lines := make([]string, len(fullHeader))
	for i, line := range fullHeader {
		name, value, _ := strings.Cut(line, ": ")
		lines[i] = strings.ToUpper(name) + ": " + value
	}
	var e feed.Entity
	if err := feed.Parse(&e, &page.Part{Header: header(lines...)}, true); err != nil {
		t.Fatal(err)
	}
	if e.ContentID != fullEntity.ContentID || len(e.Header) != 3 || e.Header[1].Name != "X-SECOND" {
		t.Errorf("got %+v", e)
	}
}

// TestParseReuse: if an Entity is used again, nothing remains of the previous entity. An entity
// does not alias the part's buffer.
func TestParseReuse(t *testing.T) {
	var e feed.Entity
	first := header(fullHeader...)
	if err := feed.Parse(&e, &page.Part{Header: first, Body: []byte("hello")}, true); err != nil {
		t.Fatal(err)
	}
	id, location := e.ContentID, e.ContentLocation
	for _, f := range first {
		clear(f.Name)
		clear(f.Value)
	}
	if e.ContentID != "<1-A@random-content-id>" || e.Header[1] != (feed.Field{Name: "x-second", Value: "b"}) {
		t.Errorf("entity aliases the part's buffer: %+v", e)
	}
	small := &page.Part{
		Header: header("Content-Type: text/plain", "Last-Modified: Mon, 27 Nov 2023 03:10:01 GMT"),
		Stream: strings.NewReader("x"),
	}
	if err := feed.Parse(&e, small, false); err != nil {
		t.Fatal(err)
	}
	if e.ContentID != "" || e.Operation != "" || e.ContentLocation != "" || len(e.Header) != 0 || e.Body != nil || e.Size != -1 {
		t.Errorf("fields of the previous entity remain in %+v", e)
	}
	if e.Stream != small.Stream || !e.LastModified.Equal(fullEntity.LastModified.Add(time.Second)) {
		t.Errorf("got %+v", e)
	}
	if id != "<1-A@random-content-id>" || location != "Europe%2FBerlin" {
		t.Errorf("strings of the previous entity changed: %q, %q", id, location)
	}
}

func TestParseErrors(t *testing.T) {
	without := func(name string) []string {
		var lines []string
		for _, line := range fullHeader {
			if !strings.HasPrefix(line, name+":") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	with := func(name, value string) []string { return append(without(name), name+": "+value) }
	for name, c := range map[string]struct {
		lines  []string
		header string
		cause  error
	}{
		"no Last-Modified":     {without("Last-Modified"), "Last-Modified", feed.ErrMissingHeader},
		"bad Last-Modified":    {with("Last-Modified", "yesterday"), "Last-Modified", feed.ErrInvalidHeader},
		"no Content-Type":      {without("Content-Type"), "Content-Type", feed.ErrMissingHeader},
		"empty Content-Type":   {with("Content-Type", ""), "Content-Type", feed.ErrMissingHeader},
		"no Content-ID":        {without("Content-ID"), "Content-ID", feed.ErrMissingHeader},
		"empty Content-ID":     {with("Content-ID", ""), "Content-ID", feed.ErrMissingHeader},
		"no Operation-Type":    {without("Operation-Type"), "Operation-Type", feed.ErrMissingHeader},
		"bad Operation-Type":   {with("Operation-Type", "http-equiv=POST"), "Operation-Type", feed.ErrInvalidHeader},
		"two Content-IDs":      {append(fullHeader[:9:9], "content-id: <1-A@random-content-id>"), "Content-ID", feed.ErrInvalidHeader},
		"two Content-Types":    {append(fullHeader[:9:9], "Content-Type: text/html"), "Content-Type", feed.ErrInvalidHeader},
		"two Last-Modifieds":   {append(fullHeader[:9:9], "Last-Modified: Mon, 27 Nov 2023 03:10:00 GMT"), "Last-Modified", feed.ErrInvalidHeader},
		"two Operation-Types":  {append(fullHeader[:9:9], "Operation-Type: PUT"), "Operation-Type", feed.ErrInvalidHeader},
		"two Content-Location": {append(fullHeader[:9:9], "Content-Location: b"), "Content-Location", feed.ErrInvalidHeader},
		"two Content-Lengths":  {append(fullHeader[:9:9], "Content-Length: 6"), "Content-Length", feed.ErrInvalidHeader},
	} {
		t.Run(name, func(t *testing.T) {
			var e feed.Entity
			err := feed.Parse(&e, &page.Part{Index: 3, Offset: 120, Header: header(c.lines...)}, true)
			var got *feed.HeaderError
			if !errors.Is(err, c.cause) || !errors.As(err, &got) {
				t.Fatalf("error %v, want a HeaderError that matches %q", err, c.cause)
			}
			if got.Part != 3 || got.Offset != 120 || got.Name != c.header {
				t.Errorf("error names part %d, offset %d, header %s", got.Part, got.Offset, got.Name)
			}
			if text := err.Error(); !strings.Contains(text, "part 3, offset 120") || !strings.Contains(text, c.header) {
				t.Errorf("error text %q has no location", text)
			}
		})
	}
}

// TestParseDelete reads a DELETE without Content-Type, which RFC 2046 makes text/plain.
func TestParseDelete(t *testing.T) {
	for _, lines := range [][]string{nil, {"Content-Type:"}} {
		var e feed.Entity
		lines = append(lines, "Last-Modified: Mon, 27 Nov 2023 03:10:00 GMT", "Content-ID: <1>", "Operation-Type: http-equiv=DELETE")
		if err := feed.Parse(&e, &page.Part{Header: header(lines...)}, true); err != nil || e.ContentType != "text/plain; charset=us-ascii" {
			t.Errorf("%q: Content-Type %q, %v", lines, e.ContentType, err)
		}
	}
}

// TestParseRepeatedLength: two equal Content-Lengths are accepted.
func TestParseRepeatedLength(t *testing.T) {
	var e feed.Entity
	if err := feed.Parse(&e, &page.Part{Header: header(append(slices.Clip(fullHeader), "content-length: 5", "Content-Length: 5")...)}, true); err != nil {
		t.Error(err)
	}
}

// TestParseSnapshotEntity: an entity of a snapshot needs only one header.
func TestParseSnapshotEntity(t *testing.T) {
	lines := []string{"Content-Type: text/plain"}
	var e feed.Entity
	if err := feed.Parse(&e, &page.Part{Header: header(lines...)}, false); err != nil || !e.LastModified.IsZero() {
		t.Errorf("without Last-Modified: %v, %v", e.LastModified, err)
	}
	lines = append(lines, "Last-Modified: Thu, 5 Oct 2023 03:00:13 GMT")
	if err := feed.Parse(&e, &page.Part{Header: header(lines...)}, false); err != nil {
		t.Error(err)
	}
	lines = append(lines, "Operation-Type: http-equiv=NOTHING")
	if err := feed.Parse(&e, &page.Part{Header: header(lines...)}, false); !errors.Is(err, feed.ErrInvalidHeader) {
		t.Errorf("a bad operation in a snapshot: %v", err)
	}
}

// parts returns the parts of a page of n entities with the seven usual headers.
func parts(n int) []*page.Part {
	all := make([]*page.Part, n)
	for i := range all {
		all[i] = &page.Part{Index: i, Body: []byte("hello"), Header: header(
			"Last-Modified: Mon, 27 Nov 2023 03:10:00 GMT",
			"Content-Type: application/json",
			fmt.Sprintf("Content-ID: <%d@random-content-id>", i),
			"Operation-Type: http-equiv=PUT",
			fmt.Sprintf("Content-Location: zones%%2F%d", i),
			"X-Trace: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
			"Content-Length: 5",
		)}
	}
	return all
}

func TestParseAllocates(t *testing.T) {
	all := parts(100)
	var e feed.Entity
	got := testing.AllocsPerRun(10, func() {
		for _, p := range all {
			if err := feed.Parse(&e, p, true); err != nil {
				t.Fatal(err)
			}
		}
	}) / float64(len(all))
	if got > 1 {
		t.Errorf("%.2f allocations an entity, want at most 1", got)
	}
}

func BenchmarkParse(b *testing.B) {
	all := parts(1000)
	var e feed.Entity
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := feed.Parse(&e, all[i%len(all)], true); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzParse: parsing an arbitrary header does not panic, and an entity that was parsed is unchanged
// after a round trip.
func FuzzParse(f *testing.F) {
	f.Add(strings.Join(fullHeader, "\n"), true)
	f.Add("Content-Type: text/plain\nLast-Modified: Thu, 5 Oct 2023 03:00:13 GMT", false)
	f.Add("Content-Length: -1\ncontent-Ty: x\n:\n: x", true)
	f.Fuzz(func(t *testing.T, text string, feedEntity bool) {
		var e, again feed.Entity
		if err := feed.Parse(&e, &page.Part{Header: header(strings.Split(text, "\n")...)}, feedEntity); err != nil {
			if _, ok := errors.AsType[*feed.HeaderError](err); !ok {
				t.Fatalf("error %v is not a HeaderError", err)
			}
			return
		}
		e.Size = -1
		if err := feed.Parse(&again, &page.Part{Header: e.AppendHeader(nil)}, feedEntity); err != nil {
			t.Fatalf("%q: written and read again: %v", text, err)
		}
		if diff := cmp.Diff(e, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%q: written and read again:\n%s", text, diff)
		}
	})
}
