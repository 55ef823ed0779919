package feed_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

func TestAppendHeader(t *testing.T) {
	e := fullEntity
	e.LastModified = e.LastModified.Add(999 * time.Millisecond)
	before := page.Field{Name: []byte("Before"), Value: []byte("x")}
	var got []string
	for _, f := range e.AppendHeader(page.Header{before}) {
		got = append(got, fmt.Sprintf("%s: %s", f.Name, f.Value))
	}
	want := []string{
		"Before: x",
		"Last-Modified: Mon, 27 Nov 2023 03:10:00 GMT",
		"Content-Type: application/json",
		"Content-ID: <1-A@random-content-id>",
		"Operation-Type: http-equiv=PATCH",
		"Content-Location: Europe%2FBerlin",
		"X-First: 1",
		"x-second: b",
		"X-First: 2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestAppendHeaderOfDelete: a DELETE is written with a Content-Type, which the
// specification requires.
func TestAppendHeaderOfDelete(t *testing.T) {
	e := feed.Entity{Operation: feed.Delete, ContentID: "<1>", ContentLocation: "k"}
	if err := e.Check(true); err != nil {
		t.Fatal(err)
	}
	header := e.AppendHeader(nil)
	if got := string(header.Get("Content-Type")); got != "text/plain; charset=us-ascii" {
		t.Errorf("Content-Type %q", got)
	}
	size := 0
	for _, f := range header {
		size += len(f.Name) + len(f.Value)
	}
	if fields, n := e.HeaderSize(); fields != len(header) || n != size {
		t.Errorf("HeaderSize: %d fields, %d bytes; the header has %d and %d", fields, n, len(header), size)
	}
}

func TestAppendHeaderAllocates(t *testing.T) {
	dst := make(page.Header, 0, 10)
	if n := testing.AllocsPerRun(100, func() { dst = fullEntity.AppendHeader(dst[:0]) }); n > 1 {
		t.Errorf("%.0f allocations, want at most 1", n)
	}
}

// TestHeaderBuffer: except for the time, a buffer builds the same headers as AppendHeader, one after the other and
// without allocating.
func TestHeaderBuffer(t *testing.T) {
	var b feed.HeaderBuffer
	deleted := feed.Entity{Operation: feed.Delete, ContentID: "<1>"}
	at := time.Date(2024, 2, 29, 23, 59, 59, 0, time.FixedZone("", 3600))
	for _, step := range []struct {
		e  *feed.Entity
		at time.Time
	}{{&deleted, time.Time{}}, {&fullEntity, at}, {&deleted, at.Add(999 * time.Millisecond)}, {&fullEntity, at.Add(time.Second)}} {
		want := *step.e
		want.LastModified = step.at
		if diff := cmp.Diff(want.AppendHeader(nil), b.Header(step.e, step.at)); diff != "" {
			t.Error(diff)
		}
	}
	n := testing.AllocsPerRun(100, func() {
		at = at.Add(time.Second)
		b.Header(&fullEntity, at)
	})
	if n > 0 {
		t.Errorf("%.0f allocations, want none", n)
	}
}

func TestCheckAccepts(t *testing.T) {
	for name, change := range map[string]func(*feed.Entity){
		"all":                    func(*feed.Entity) {},
		"no Content-ID yet":      func(e *feed.Entity) { e.ContentID = "" },
		"no key":                 func(e *feed.Entity) { e.ContentLocation = "" },
		"bare Content-ID":        func(e *feed.Entity) { e.ContentID = "a-random-content-id-or-hash" },
		"longest Content-ID":     func(e *feed.Entity) { e.ContentID = strings.Repeat("x", feed.MaxContentID) },
		"UTF-8 in a field":       func(e *feed.Entity) { e.Header = []feed.Field{{"X", "Zürich"}} },
		"empty field":            func(e *feed.Entity) { e.Header = []feed.Field{{"X", ""}} },
		"tab inside":             func(e *feed.Entity) { e.Header = []feed.Field{{"X", "a\tb"}} },
		"almost a known name":    func(e *feed.Entity) { e.Header = []feed.Field{{"Content-MD", "x"}, {"Content-Types", "x"}} },
		"as long as a known one": func(e *feed.Entity) { e.Header = []feed.Field{{"Octet-Stream-X", "x"}, {"Xontent-Length", "x"}} },
	} {
		t.Run(name, func(t *testing.T) {
			e := fullEntity
			change(&e)
			if err := e.Check(true); err != nil {
				t.Error(err)
			}
			e.Operation = ""
			if err := e.Check(false); err != nil {
				t.Errorf("in a snapshot: %v", err)
			}
		})
	}
}

func TestCheckErrors(t *testing.T) {
	field := func(name, value string) func(*feed.Entity) {
		return func(e *feed.Entity) { e.Header = []feed.Field{{name, value}} }
	}
	for name, c := range map[string]struct {
		change func(*feed.Entity)
		header string
	}{
		"no content type":          {func(e *feed.Entity) { e.ContentType = "" }, "Content-Type"},
		"LF in content type":       {func(e *feed.Entity) { e.ContentType = "a/b\nX: y" }, "Content-Type"},
		"space around":             {func(e *feed.Entity) { e.ContentType = " a/b" }, "Content-Type"},
		"space in Content-ID":      {func(e *feed.Entity) { e.ContentID = "a b" }, "Content-ID"},
		"CR in Content-ID":         {func(e *feed.Entity) { e.ContentID = "a\rb" }, "Content-ID"},
		"umlaut in Content-ID":     {func(e *feed.Entity) { e.ContentID = "ä" }, "Content-ID"},
		"long Content-ID":          {func(e *feed.Entity) { e.ContentID = strings.Repeat("x", feed.MaxContentID+1) }, "Content-ID"},
		"raw key":                  {func(e *feed.Entity) { e.ContentLocation = "Zürich" }, "Content-Location"},
		"CRLF in key":              {func(e *feed.Entity) { e.ContentLocation = "a\r\nX: y" }, "Content-Location"},
		"unknown operation":        {func(e *feed.Entity) { e.Operation = "POST" }, "Operation-Type"},
		"lower-case operation":     {func(e *feed.Entity) { e.Operation = "put" }, "Operation-Type"},
		"known name again":         {field("content-id", "x"), "content-id"},
		"Content-Length":           {field("Content-Length", "5"), "Content-Length"},
		"no name":                  {field("", "x"), `""`},
		"colon in name":            {field("a:b", "x"), `"a:b"`},
		"space in name":            {field("a b", "x"), `"a b"`},
		"LF in name":               {field("a\nb", "x"), `"a\nb"`},
		"umlaut in name":           {field("ä", "x"), `"ä"`},
		"LF in value":              {field("X", "a\nb"), "X"},
		"CR in value":              {field("X", "a\rb"), "X"},
		"NUL in value":             {field("X", "a\x00b"), "X"},
		"control in value":         {field("X", "a\x01b"), "X"},
		"DEL in value":             {field("X", "a\x7fb"), "X"},
		"escape in content type":   {func(e *feed.Entity) { e.ContentType = "a/b\x1b[2J" }, "Content-Type"},
		"Latin-1 in value":         {field("X", "Z\xfcrich"), "X"},
		"truncated UTF-8 in value": {field("X", "\xe2\x82"), "X"},
		"Latin-1 in Content-ID":    {func(e *feed.Entity) { e.ContentID = "\xfc" }, "Content-ID"},
		"white space at the end":   {field("X", "a\t"), "X"},
		"too much":                 {field("X", strings.Repeat("x", feed.MaxHeader)), "block"},
	} {
		t.Run(name, func(t *testing.T) {
			e := fullEntity
			c.change(&e)
			err := e.Check(true)
			var got *feed.HeaderError
			if !errors.As(err, &got) || got.Name != c.header || got.Part != -1 {
				t.Fatalf("error %v, want a HeaderError that names %s", err, c.header)
			}
			if !errors.Is(err, feed.ErrInvalidHeader) && !errors.Is(err, feed.ErrMissingHeader) {
				t.Errorf("error %v wraps neither ErrInvalidHeader nor ErrMissingHeader", err)
			}
			if strings.ContainsAny(err.Error(), "\r\n\x00") {
				t.Errorf("error text %q breaks its line", err)
			}
		})
	}
	e := fullEntity
	e.Operation = ""
	if err := e.Check(true); !errors.Is(err, feed.ErrMissingHeader) {
		t.Errorf("entity of a feed without an operation: %v", err)
	}
}

// TestCheckNamesTheCharacter: the error names the character, not one of its bytes.
func TestCheckNamesTheCharacter(t *testing.T) {
	for value, want := range map[string]string{"Z\u00fcrich": "character '\u00fc' at byte 1", "Z\xfcrich": "byte 1, 0xfc,", "\ufffd": "character '\ufffd' at byte 0"} {
		e := fullEntity
		e.ContentID = value
		if err := e.Check(true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Content-ID %q: error %v, want one with %q", value, err, want)
		}
	}
}

// FuzzCheck: an entity that Check accepts is unchanged after a round trip through a page.
func FuzzCheck(f *testing.F) {
	f.Add("<1>", "application/json", "Europe%2FBerlin", "X-Field", "value", []byte("body"))
	f.Add("", "a", "", "Content-Id", " ", []byte("\r\n--"))
	f.Fuzz(func(t *testing.T, id, contentType, location, name, value string, body []byte) {
		e := feed.Entity{
			ContentID: id, Operation: feed.Put, LastModified: fullEntity.LastModified, ContentType: contentType,
			ContentLocation: location, Header: []feed.Field{{name, value}}, Body: body, Size: int64(len(body)),
		}
		if e.Check(false) != nil {
			return
		}
		const boundary = "0123456789abcdef0123456789abcdef"
		data, err := page.AppendPart(nil, boundary, e.AppendHeader(nil), body)
		if errors.Is(err, page.ErrBoundaryInBody) {
			return
		}
		if err != nil {
			t.Fatalf("Check accepts %+v, the page rejects it: %v", e, err)
		}
		r := page.NewReader(strings.NewReader(string(page.AppendClose(data, boundary))), boundary, page.ReaderOptions{Strict: true})
		n := 0
		for part, err := range r.Parts() {
			if err != nil {
				t.Fatal(err)
			}
			var got feed.Entity
			if err := feed.Parse(&got, part, false); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(e, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatal(diff)
			}
			n++
		}
		if n != 1 {
			t.Fatalf("one entity is read back as %d", n)
		}
	})
}
