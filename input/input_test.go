package input_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"net/textproto"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/input"
	"github.com/feedctl/feedctl/page"
)

// collect reads all entities with their bodies. After an error, it returns the entities read
// before.
func collect(t *testing.T, entities iter.Seq2[*feed.Entity, error]) ([]feed.Entity, error) {
	t.Helper()
	var all []feed.Entity
	for e, err := range entities {
		if err != nil {
			return all, err
		}
		got := *e
		if e.Stream != nil {
			body, err := io.ReadAll(e.Stream)
			if err != nil {
				return all, err
			}
			if e.Size >= 0 && e.Size != int64(len(body)) {
				t.Errorf("stream of %d bytes claims %d", len(body), e.Size)
			}
			got.Stream, got.Size, got.Body = nil, 0, append([]byte("streamed:"), body...)
		}
		all = append(all, got)
	}
	return all, nil
}

// sameBytes compares bodies with bytes.Equal, which is faster than byte by byte.
var sameBytes = cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) })

func put(key, id, body string) feed.Entity {
	return feed.Entity{ContentLocation: key, ContentID: id, Operation: feed.Put, ContentType: "application/json", Body: []byte(body)}
}

func TestNDJSON(t *testing.T) {
	deleted := put("a", "", `{"id":"a","op":"delete"}`)
	deleted.Operation = feed.Delete
	patched := put("", "", `{}`)
	patched.Operation, patched.ContentType = feed.Patch, "application/merge-patch+json"
	tests := []struct {
		name, lines string
		options     input.Options
		want        []feed.Entity
		where       string // of the error
		err         error
	}{
		{name: "empty"},
		{name: "plain", lines: "1\n2\n", want: []feed.Entity{put("", "", "1"), put("", "", "2")}},
		{name: "no last line break", lines: "1\n2", want: []feed.Entity{put("", "", "1"), put("", "", "2")}},
		{name: "CRLF and empty lines", lines: "1\r\n\r\n \n2\r\n", want: []feed.Entity{put("", "", "1"), put("", "", "2")}},
		{name: "byte order mark", lines: "\ufeff{\"id\":\"a\"}\n1\n", options: input.Options{}, want: []feed.Entity{put("", "", `{"id":"a"}`), put("", "", "1")}},
		{name: "byte order mark alone", lines: "\ufeff\r\n1\n", want: []feed.Entity{put("", "", "1")}},
		{name: "byte order mark later", lines: "1\n\ufeff2\n", want: []feed.Entity{put("", "", "1")}, where: "line 2", err: input.ErrInvalid},
		{name: "body is unchanged", lines: ` {"b": 1.0,  "a":"\u0061"} ` + "\n", want: []feed.Entity{put("", "", ` {"b": 1.0,  "a":"\u0061"} `)}},
		{name: "key", lines: `{"id":"a/é"}`, options: input.Options{Key: "/id"}, want: []feed.Entity{put("a%2F%C3%A9", "", `{"id":"a/é"}`)}},
		{name: "number as key", lines: `{"id":7}`, options: input.Options{Key: "/id"}, want: []feed.Entity{put("7", "", `{"id":7}`)}},
		{name: "Content-ID", lines: `{"e":"x@y"}`, options: input.Options{ContentID: "/e"}, want: []feed.Entity{put("", "x@y", `{"e":"x@y"}`)}},
		{name: "operation of all", lines: `{}`, options: input.Options{Operation: feed.Patch, ContentType: "application/merge-patch+json"}, want: []feed.Entity{patched}},
		{name: "operation of each", lines: `{"id":"a","op":"delete"}` + "\n" + `{"id":"b"}`, options: input.Options{Key: "/id", OperationField: "/op"},
			want: []feed.Entity{deleted, put("b", "", `{"id":"b"}`)}},
		{name: "longest line", lines: `"123456"` + "\r\n1", options: input.Options{MaxLine: 8}, want: []feed.Entity{put("", "", `"123456"`), put("", "", "1")}},

		{name: "key missing", lines: "{\"id\":1}\n\n{}\n", options: input.Options{Key: "/id"}, want: []feed.Entity{put("1", "", `{"id":1}`)}, where: "line 3", err: input.ErrInvalid},
		{name: "key empty", lines: `{"id":""}`, options: input.Options{Key: "/id"}, where: "line 1", err: input.ErrInvalid},
		{name: "Content-ID missing", lines: `{}`, options: input.Options{ContentID: "/id"}, where: "line 1", err: input.ErrInvalid},
		{name: "Content-ID with space", lines: `{"id":"a b"}`, options: input.Options{ContentID: "/id"}, where: "line 1", err: feed.ErrInvalidHeader},
		{name: "operation unknown", lines: `{"op":"upsert"}`, options: input.Options{OperationField: "/op"}, where: "line 1", err: input.ErrInvalid},
		{name: "operation null", lines: `{"op":null}`, options: input.Options{OperationField: "/op"}, where: "line 1", err: input.ErrInvalid},
		{name: "no JSON", lines: "1\n{]\n", want: []feed.Entity{put("", "", "1")}, where: "line 2", err: input.ErrInvalid},
		{name: "pointer", lines: "1\n", options: input.Options{Key: "id"}, where: "options", err: input.ErrInvalid},
		{name: "operation given", lines: "1\n", options: input.Options{Operation: "COPY"}, where: "line 1", err: input.ErrInvalid},
		{name: "line too long", lines: "1\n\"1234567\"\n", options: input.Options{MaxLine: 8}, want: []feed.Entity{put("", "", "1")}, where: "line 2", err: input.ErrLineTooLong},
		{name: "very long line", lines: `"` + strings.Repeat("x", 1<<20), options: input.Options{MaxLine: 100 << 10}, where: "line 1", err: input.ErrLineTooLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, reader := range []io.Reader{strings.NewReader(tt.lines), iotest.OneByteReader(strings.NewReader(tt.lines))} {
				got, err := collect(t, input.NDJSON(reader, tt.options))
				if diff := cmp.Diff(tt.want, got, sameBytes); diff != "" {
					t.Errorf("entities (-want +got):\n%s", diff)
				}
				check(t, err, tt.where, tt.err)
			}
		})
	}
}

// check fails the test unless err is an *input.Error with the given place and cause.
func check(t *testing.T, err error, where string, cause error) {
	t.Helper()
	if !errors.Is(err, cause) {
		t.Fatalf("got error %v, want %v", err, cause)
	}
	var at *input.Error
	if cause != nil && (!errors.As(err, &at) || at.Where != where) {
		t.Errorf("error %q: want one at %q", err, where)
	}
}

// TestNDJSONErrorText: errors name the mistake and its position.
func TestNDJSONErrorText(t *testing.T) {
	for line, want := range map[string]string{
		"{\"id\":\"b\x00\"}":              `byte 9: invalid character '\x00' in string literal`,
		`{"id":"a"} {"id":"b"}`:           "byte 12: invalid character '{' after top-level value",
		`{"id":`:                          "byte 6: unexpected end of JSON input",
		`{"id":"a","op":"upsert"}`:        `find the operation: "upsert" is not one of PUT, PATCH, DELETE`,
		`{"id":"a","op":["PUT"]}`:         "not a string",
		"\xff\xfe{\x00}\x00":              "byte 1: invalid character",
		`{"id":"a","op":"\u0001 \u001b"}`: `"\x01 \x1b" is not one of`,
	} {
		_, err := collect(t, input.NDJSON(strings.NewReader(line), input.Options{OperationField: "/op"}))
		check(t, err, "line 1", input.ErrInvalid)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}

// TestNDJSONKeepsEntities: entities from lines of any length remain valid while further lines are
// being read.
func TestNDJSONKeepsEntities(t *testing.T) {
	line := func(i int) string {
		length := i % 300
		switch {
		case i%1000 == 999:
			length = 200_000 // longer than a block
		case i%10 == 9:
			length = 20 * i
		}
		return fmt.Sprintf(`{"n":%d,"text":%q}`, i, strings.Repeat(string(rune('a'+i%26)), length))
	}
	var lines strings.Builder
	for i := range 3000 {
		lines.WriteString(line(i) + "\n")
	}
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(lines.String()), "halves": iotest.HalfReader(strings.NewReader(lines.String())),
		"with EOF": iotest.DataErrReader(strings.NewReader(lines.String())),
	} {
		got, err := collect(t, input.NDJSON(r, input.Options{}))
		if err != nil || len(got) != 3000 {
			t.Fatalf("%s: got %d entities, %v", name, len(got), err)
		}
		for i, e := range got {
			if string(e.Body) != line(i) {
				t.Fatalf("%s: entity %d has body %.100q: it was overwritten", name, i, e.Body)
			}
		}
	}
}

// BenchmarkNDJSON reads lines of 1 KB with a key.
func BenchmarkNDJSON(b *testing.B) {
	const lines = 1000
	for name, line := range map[string]string{
		"text":    `{"id":"user-000123","text":"` + strings.Repeat("x", 970) + `"}`,
		"members": `{"id":"user-000123","list":[` + strings.Repeat(`{"name":"Ada","score":12345.678,"on":true},`, 22) + `null]}`,
	} {
		all := strings.Repeat(line+"\n", lines)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line) + 1))
			b.ReportAllocs()
			for n := 0; n < b.N; n += lines {
				for _, err := range input.NDJSON(strings.NewReader(all), input.Options{Key: "/id"}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func TestBrokenSource(t *testing.T) {
	broken := errors.New("connection reset")
	for name, entities := range map[string]iter.Seq2[*feed.Entity, error]{
		"ndjson":    input.NDJSON(io.MultiReader(strings.NewReader("1\n2"), iotest.ErrReader(broken)), input.Options{}),
		"multipart": input.Multipart(io.MultiReader(strings.NewReader("--b\r\nContent-Type: a/b\r\n\r\n"), iotest.ErrReader(broken)), "multipart/mixed; boundary=b", page.ReaderOptions{}),
	} {
		_, err := collect(t, entities)
		if !errors.Is(err, broken) || errors.Is(err, input.ErrInvalid) {
			t.Errorf("%s: got %v, want the source's error and not ErrInvalid", name, err)
		}
	}
	_, err := input.Single(textproto.MIMEHeader{"Content-Type": {"a/b"}}, iotest.ErrReader(broken), 5, 10)
	if !errors.Is(err, broken) || errors.Is(err, input.ErrInvalid) {
		t.Errorf("single: got %v, want the source's error and not ErrInvalid", err)
	}
}

const document = "--b\r\n" +
	"Content-Type: text/plain\r\nContent-ID: <1>\r\nOperation-Type: http-equiv=DELETE\r\nContent-Location: k\r\n" +
	"Last-Modified: Mon, 27 Nov 2023 03:10:00 GMT\r\nContent-Length: 5\r\nTraceparent: 00-1\r\n\r\nhello\r\n" +
	"--b\r\ncontent-type: text/plain\r\n\r\nlonger than ten\r\n--b--\r\n"

func TestMultipart(t *testing.T) {
	first := feed.Entity{
		ContentID: "<1>", Operation: feed.Delete, ContentType: "text/plain", ContentLocation: "k",
		Header: []feed.Field{{Name: "Traceparent", Value: "00-1"}}, Body: []byte("hello"),
		LastModified: time.Date(2023, 11, 27, 3, 10, 0, 0, time.UTC),
	}
	second := feed.Entity{Operation: feed.Put, ContentType: "text/plain", Body: []byte("streamed:longer than ten")}
	untyped := first
	untyped.ContentType = ""
	replaced := func(old, new string) string { return strings.Replace(document, old, new, 1) }
	tests := []struct {
		name, document, contentType string
		limits                      page.ReaderOptions
		want                        []feed.Entity
		where                       string
		err                         error
	}{
		{name: "two", document: document, want: []feed.Entity{first, second}},
		{name: "other subtype", document: document, contentType: `multipart/related; boundary="b"`, want: []feed.Entity{first, second}},
		{name: "no boundary", document: document, contentType: "multipart/mixed", where: "Content-Type", err: input.ErrInvalid},
		{name: "no parts", document: "--b--\r\n", where: "part -1, offset 0", err: page.ErrNoParts},
		{name: "cut", document: strings.TrimSuffix(document, "--b--\r\n"), want: []feed.Entity{first}, where: "", err: page.ErrTruncated},
		{name: "Content-Type missing", document: strings.Replace(document, "content-type: text/plain\r\n", "", 1), want: []feed.Entity{first}, where: "part 1, offset 197", err: input.ErrInvalid},
		{name: "Content-Type of a DELETE missing", document: replaced("Content-Type: text/plain\r\n", ""), want: []feed.Entity{untyped, second}},
		{name: "operation unknown", document: replaced("DELETE", "UPSERT"), where: "part 0, offset 0", err: input.ErrInvalid},
		{name: "Last-Modified unreadable", document: replaced("27 Nov", "27 Foo"), where: "part 0, offset 0", err: input.ErrInvalid},
		{name: "Last-Modified twice", document: replaced("Traceparent: 00-1", "Last-Modified: Mon, 27 Nov 2023 03:10:00 GMT"), where: "part 0, offset 0", err: input.ErrInvalid},
		{name: "operation twice", document: replaced("Traceparent: 00-1", "operation-type: PUT"), where: "part 0, offset 0", err: input.ErrInvalid},
		{name: "Content-ID twice", document: replaced("Traceparent: 00-1", "content-id: <2>"), where: "part 0, offset 0", err: input.ErrInvalid},
		{name: "part too large", document: document, limits: page.ReaderOptions{MaxPart: 4, MaxWhole: 4}, err: page.ErrPartTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			contentType, limits := tt.contentType, tt.limits
			if contentType == "" {
				contentType = "multipart/mixed; boundary=b"
			}
			if limits == (page.ReaderOptions{}) {
				limits = page.ReaderOptions{MaxWhole: 10}
			}
			got, err := collect(t, input.Multipart(strings.NewReader(tt.document), contentType, limits))
			if tt.err == nil || tt.want != nil {
				if diff := cmp.Diff(tt.want, got, sameBytes); diff != "" {
					t.Errorf("entities (-want +got):\n%s", diff)
				}
			}
			if tt.where != "" {
				check(t, err, tt.where, tt.err)
			}
			if !errors.Is(err, tt.err) || (tt.err != nil) != errors.Is(err, input.ErrInvalid) && tt.name != "cut" {
				t.Errorf("got error %v, want %v", err, tt.err)
			}
		})
	}
}

func TestSingle(t *testing.T) {
	header := textproto.MIMEHeader{
		"Content-Type": {"text/plain"}, "Content-Id": {"<1>"}, "Operation-Type": {"http-equiv=PATCH"}, "Content-Location": {"k"},
		"Content-Language": {"de"}, "Content-Encoding": {"gzip"}, "Content-Length": {"5"}, "User-Agent": {"x"}, "Authorization": {"Basic eDp5"},
	}
	want := feed.Entity{
		ContentID: "<1>", Operation: feed.Patch, ContentType: "text/plain", ContentLocation: "k",
		Header: []feed.Field{{Name: "Content-Encoding", Value: "gzip"}, {Name: "Content-Language", Value: "de"}},
		Body:   []byte("hello"),
	}
	got, err := input.Single(header, strings.NewReader("hello"), 5, 5)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, *got, sameBytes); diff != "" {
		t.Errorf("entity (-want +got):\n%s", diff)
	}
	got, err = input.Single(header, strings.NewReader("hello"), 5, 4)
	if err != nil || got.Body != nil || got.Size != 5 {
		t.Fatalf("body larger than maxWhole: got %+v, %v; want a stream", got, err)
	}
	if body, err := io.ReadAll(got.Stream); string(body) != "hello" || err != nil {
		t.Errorf("stream gave %q, %v", body, err)
	}
	got, err = input.Single(textproto.MIMEHeader{"Content-Type": {"a/b"}}, strings.NewReader(""), 0, 4)
	if err != nil || got.Body == nil || got.Operation != feed.Put {
		t.Errorf("empty body: got %+v, %v", got, err)
	}
	for name, header := range map[string]textproto.MIMEHeader{
		"no Content-Type":   {},
		"two Content-Types": {"Content-Type": {"a/b", "c/d"}},
		"operation":         {"Content-Type": {"a/b"}, "Operation-Type": {"COPY"}},
	} {
		if _, err := input.Single(header, strings.NewReader(""), 0, 4); !errors.Is(err, input.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
}

func TestDirectory(t *testing.T) {
	large := strings.Repeat("x", 300<<10)
	fsys := fstest.MapFS{
		"b.json":       {Data: []byte("{}")},
		"a/b c.txt":    {Data: []byte("text")},
		"a/empty":      {Data: nil},
		"large":        {Data: []byte(large)},
		"link":         {Mode: 0o777 | 1<<27}, // fs.ModeSymlink
		"emptydir/sub": {Mode: 0o755 | 1<<31}, // fs.ModeDir
		"pipe":         {Mode: fs.ModeNamedPipe},
		"\xff":         {Data: []byte("text")},
		"\xfe/file":    {Data: []byte("text")},
	}
	want := []feed.Entity{
		{Operation: feed.Put, ContentType: "text/plain; charset=utf-8", ContentLocation: "a%2Fb%20c.txt", Body: []byte("text")},
		{Operation: feed.Put, ContentType: "application/octet-stream", ContentLocation: "a%2Fempty", Body: []byte{}},
		{Operation: feed.Put, ContentType: "application/json", ContentLocation: "b.json", Body: []byte("{}")},
		{Operation: feed.Put, ContentType: "application/octet-stream", ContentLocation: "large", Body: []byte("streamed:" + large)},
	}
	skipped := map[string]error{}
	got, err := collect(t, input.Directory(fsys, input.DirectoryOptions{Skipped: func(name string, why error) { skipped[name] = why }}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, sameBytes); diff != "" {
		t.Errorf("entities (-want +got):\n%s", diff)
	}
	if want := map[string]error{"link": input.ErrNotFile, "pipe": input.ErrNotFile, "\xff": input.ErrName, "\xfe": input.ErrName}; !maps.Equal(skipped, want) {
		t.Errorf("skipped %q, want %q", skipped, want)
	}
	got, err = collect(t, input.Directory(fsys, input.DirectoryOptions{Operation: feed.Delete, ContentType: "a/b"}))
	if err != nil || got[0].Operation != feed.Delete || got[0].ContentType != "a/b" {
		t.Errorf("options are ignored: %+v, %v", got[0], err)
	}
	for range input.Directory(fsys, input.DirectoryOptions{}) {
		break // must end the iteration without a panic
	}
	_, err = collect(t, input.Directory(fsys, input.DirectoryOptions{Operation: "COPY"}))
	check(t, err, "file a/b c.txt", input.ErrInvalid)
}

// FuzzNDJSON: no line is lost, changed or invented.
func FuzzNDJSON(f *testing.F) {
	f.Add("{\"id\":1}\r\n\n[2]", "/id", 100)
	f.Add("\"\xff\"\n 3 ", "", 3)
	f.Fuzz(func(t *testing.T, text, key string, limit int) {
		if limit < 1 {
			return
		}
		var want []string
		for line := range strings.SplitSeq(text, "\n") {
			if line = strings.TrimSuffix(line, "\r"); strings.TrimSpace(line) != "" {
				want = append(want, line)
			}
		}
		n := 0
		for e, err := range input.NDJSON(strings.NewReader(text), input.Options{Key: key, MaxLine: limit}) {
			if err != nil {
				if !errors.Is(err, input.ErrInvalid) {
					t.Fatalf("error %v, want ErrInvalid", err)
				}
				return
			}
			if n >= len(want) || string(e.Body) != want[n] {
				t.Fatalf("entity %d is %q, in the input %q", n, e.Body, text)
			}
			n++
		}
		if n != len(want) {
			t.Fatalf("%d entities of %q", n, text)
		}
	})
}
