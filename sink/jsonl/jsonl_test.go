package jsonl_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/jsonl"
	"github.com/feedctl/feedctl/sink/sinktest"
)

func TestConformance(t *testing.T) {
	sinktest.Run(t, options())
}

func options() sinktest.Options {
	file := func(dir string) string { return filepath.Join(dir, "out.jsonl") }
	return sinktest.Options{
		Open: func(_ context.Context, dir string) (consumer.Sink, error) { return jsonl.Open(file(dir)) },
		Read: func(dir string) ([]sinktest.Record, error) { return readFile(file(dir)) },
		Log:  true,
		OpenFaulty: func(_ context.Context, dir string, before func() error) (consumer.Sink, error) {
			return jsonl.OpenFaulty(file(dir), before)
		},
	}
}

func readFile(path string) ([]sinktest.Record, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readLines(file)
}

// readLines reads lines with encoding/json, as the package documentation describes.
func readLines(r io.Reader) ([]sinktest.Record, error) {
	var records []sinktest.Record
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		record, err := readLine(line)
		if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
}

func readLine(line []byte) (r sinktest.Record, err error) {
	var l struct {
		Key          string
		KeyBase64    []byte `json:"keyBase64"`
		Operation    feed.Operation
		ContentID    string    `json:"contentId"`
		LastModified time.Time `json:"lastModified"`
		ContentType  string    `json:"contentType"`
		Headers      map[string][]string
		Body         json.RawMessage
		BodyBase64   string `json:"bodyBase64"`
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return r, err
	}
	r = sinktest.Record{Key: l.Key + string(l.KeyBase64), Operation: l.Operation, ContentType: l.ContentType, ContentID: l.ContentID, LastModified: l.LastModified, Header: l.Headers}
	if r.Body, err = base64.StdEncoding.DecodeString(l.BodyBase64); err != nil {
		return r, err
	}
	if l.Body != nil {
		r.Body = l.Body
		if !strings.Contains(l.ContentType, "json") {
			var text string
			err = json.Unmarshal(l.Body, &text)
			r.Body = []byte(text)
		}
	}
	return r, err
}

func entity(contentType, body string) *feed.Entity {
	return &feed.Entity{
		ContentID:       "<1@example.com>",
		Operation:       feed.Put,
		LastModified:    time.Date(2026, 5, 1, 12, 0, 0, 999e6, time.FixedZone("", 7200)),
		ContentType:     contentType,
		ContentLocation: "users/a%20b",
		Header:          []feed.Field{{Name: "X-A", Value: "1"}, {Name: "X-B", Value: "gr\xfc\xdfe"}, {Name: "x-a", Value: "2"}},
		Body:            []byte(body),
	}
}

// TestLines compares each form of a line byte for byte.
func TestLines(t *testing.T) {
	head := `{"key":"users/a b","operation":"PUT","contentId":"<1@example.com>","lastModified":"2026-05-01T10:00:00Z","contentType":"`
	headers := `","headers":{"X-A":["1","2"],"X-B":["grüße"]}`
	for _, c := range []struct{ contentType, body, want string }{
		{"application/json", "{ \"z\" : 1.50,\n \"a\" : [ 12345678901234567890 , \"\\u00e9\" ] }\r\n", `,"body":{"z":1.50,"a":[12345678901234567890,"\u00e9"]}`},
		{"Application/Problem+JSON; charset=utf-8", ` null `, `,"body":null`},
		{"application/json", `{"a":}`, `,"bodyBase64":"eyJhIjp9"`},
		{"application/json", "\"\xff\"", `,"bodyBase64":"Iv8i"`},
		{"application/json", ``, ``},
		{"text/plain", "a\n\"b\"\x01ü", `,"body":"a\n\"b\"\u0001ü"`},
		{"text/plain", "\xfc", `,"bodyBase64":"/A=="`},
		{"application/xml", "<a/>", `,"body":"<a/>"`},
		{"image/png", "\x89PNG", `,"bodyBase64":"iVBORw=="`},
	} {
		var out bytes.Buffer
		k := jsonl.NewWriter(&out)
		write(t, k, entity(c.contentType, c.body))
		want := head + c.contentType + headers + c.want + "}\n"
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%s %q:\n%s", c.contentType, c.body, diff)
		}
	}
}

func write(t testing.TB, k consumer.Sink, entities ...*feed.Entity) {
	t.Helper()
	b, err := k.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entities {
		if err := b.Apply(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Commit(t.Context(), feed.Position{ContentID: "<1@example.com>"}); err != nil {
		t.Fatal(err)
	}
}

// TestRefused: files in a state in which the sink cannot have left them are refused and not changed.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(path string) error
		want   string
	}{
		{"shorter", func(path string) error { return os.Truncate(path, 10) }, "were committed"},
		{"gone", os.Remove, "were committed"},
		{"changed", func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("x"), 5000), 0o666) }, "it was changed"},
		{"no position", func(path string) error { return os.Remove(path + ".position") }, "no "},
		{"bad position", func(path string) error { return os.WriteFile(path+".position", []byte("{"), 0o666) }, "read position"},
		{"later version", func(path string) error { return os.WriteFile(path+".position", []byte(`{"version":2}`), 0o666) }, "version 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out.jsonl")
			k, err := jsonl.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, k, entity("text/plain", "a"))
			k.Close()
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			if _, err := jsonl.Open(path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
	if _, err := jsonl.Open(t.TempDir()); err == nil {
		t.Error("a directory was opened")
	}
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	k := jsonl.NewWriter(&out)
	if !consumer.AtLeastOnce(k) {
		t.Error("the sink does not report at-least-once delivery")
	}
	write(t, k, entity("text/plain", "one"))
	b, err := k.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	large := entity("text/plain", "")
	large.Stream, large.Size = io.MultiReader(strings.NewReader(strings.Repeat("x", 5<<20)), &breaking{}), -1
	if err := b.Apply(t.Context(), large); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("apply: %v", err)
	}
	if err := b.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	large.Stream = strings.NewReader(strings.Repeat("x", 5<<20))
	write(t, k, large, entity("text/plain", "two"))
	records, err := readLines(&out)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, r := range records {
		sizes = append(sizes, len(r.Body))
	}
	if diff := cmp.Diff([]int{3, 5 << 20, 3}, sizes); diff != "" {
		t.Errorf("sizes of bodies (-want +got):\n%s", diff)
	}
}

type breaking struct{}

func (breaking) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestWriterTorn: a stream that ends within a line is not continued.
func TestWriterTorn(t *testing.T) {
	k := jsonl.NewWriter(&full{room: 1000})
	b, err := k.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Apply(t.Context(), entity("text/plain", strings.Repeat("x", 2000))); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(t.Context(), feed.Position{}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("commit: %v", err)
	}
	if _, err := k.Position(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("position: %v", err)
	}
	if _, err := k.Begin(t.Context()); err == nil {
		t.Error("a batch was begun")
	}
}

type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	n := min(len(b), f.room)
	f.room -= n
	if n < len(b) {
		return n, os.ErrDeadlineExceeded
	}
	return n, nil
}

func BenchmarkSink(b *testing.B) { sinktest.Benchmark(b, options()) }
