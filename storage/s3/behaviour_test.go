package s3_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/s3"
)

const immutable = "public, max-age=31536000, immutable"

// since returns the number of requests that are sent during f, by operation.
func since(s *s3.Store, f func()) map[string]uint64 {
	before := s.Requests()
	f()
	sent := s.Requests()
	maps.DeleteFunc(sent, func(name string, n uint64) bool { return n == before[name] })
	for name := range sent {
		sent[name] -= before[name]
	}
	return sent
}

func must[T any](t testing.TB) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func text(s string) storage.Body { return storage.Bytes([]byte(s)) }

func read(t *testing.T, s *s3.Store, key string) string {
	t.Helper()
	o := must[*storage.Object](t)(s.Get(t.Context(), key, 0, -1))
	defer o.Body.Close()
	return string(must[[]byte](t)(io.ReadAll(o.Body)))
}

// TestRequests checks how many requests each call sends.
func TestRequests(t *testing.T) {
	server := s3test.Start(t)
	s, other, third := newStore(t, server, "cost"), newStore(t, server, "cost"), newStore(t, server, "cost")
	ctx := t.Context()
	var version storage.Version
	first := since(s, func() { version = must[storage.Version](t)(s.Create(ctx, "a", storage.Meta{}, text("0"))) })
	if first["PutObject"] < 10 {
		t.Errorf("the first write did not probe: %v", first)
	}
	check := func(what string, s *s3.Store, want map[string]uint64, f func()) {
		t.Helper()
		if diff := cmp.Diff(want, since(s, f)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	put, get := map[string]uint64{"PutObject": 1}, map[string]uint64{"GetObject": 1}
	both := map[string]uint64{"PutObject": 1, "GetObject": 1}
	for i := range 3 {
		check("append", s, put, func() {
			version = must[storage.Version](t)(s.Append(ctx, "a", version, storage.Meta{}, text(strconv.Itoa(i))))
		})
	}
	check("first append of a process", other, map[string]uint64{"PutObject": 1, "GetObject": 2}, func() {
		version = must[storage.Version](t)(other.Append(ctx, "a", version, storage.Meta{}, text("3")))
	})
	check("append to another process's object", s, both, func() {
		version = must[storage.Version](t)(s.Append(ctx, "a", version, storage.Meta{}, text("4")))
	})
	version = must[storage.Version](t)(other.Append(ctx, "a", version, storage.Meta{}, text("5")))
	check("read", s, get, func() { read(t, s, "a") })
	check("read and append", s, both, func() {
		read(t, s, "a")
		version = must[storage.Version](t)(s.Append(ctx, "a", version, storage.Meta{}, text("6")))
	})
	check("replace", s, put, func() {
		version = must[storage.Version](t)(s.Replace(ctx, "a", version, storage.Meta{}, text("new")))
	})
	check("append to a replaced object", s, put, func() {
		version = must[storage.Version](t)(s.Append(ctx, "a", version, storage.Meta{}, text("er")))
	})
	check("last append", s, put, func() {
		version = must[storage.Version](t)(s.Append(ctx, "a", version, storage.Meta{}, storage.Last(text(" and last"))))
	})
	check("append after the last", s, both, func() { // the body is not cached after the last append
		version = must[storage.Version](t)(s.Append(ctx, "a", version, storage.Meta{}, text("!")))
	})
	check("create", s, put, func() { must[storage.Version](t)(s.Create(ctx, "b", storage.Meta{}, text("0"))) })
	check("create over an existing object", s, both, func() {
		if _, err := s.Create(ctx, "b", storage.Meta{}, text("0")); !errors.Is(err, storage.ErrExists) {
			t.Error(err)
		}
	})
	check("stat", s, get, func() { must[storage.Info](t)(s.Stat(ctx, "a")) })
	check("delete", s, map[string]uint64{"DeleteObject": 1}, func() {
		if err := s.Delete(ctx, "b"); err != nil {
			t.Error(err)
		}
	})
	check("time", s, map[string]uint64{}, func() { must[time.Time](t)(s.Now(ctx)) })
	check("time, before the first write", third, get, func() { must[time.Time](t)(third.Now(ctx)) })
	check("first write after it", third, put, func() { must[storage.Version](t)(third.Create(ctx, "c", storage.Meta{}, text("0"))) })
	check("presign", s, map[string]uint64{}, func() { must[string](t)(s.Presign(ctx, "a", time.Minute)) })
	if got := read(t, s, "a"); got != "newer and last!" {
		t.Errorf("the body is %q", got)
	}
}

// TestConsistentReads makes writers increment a counter while readers read it. Every read must
// return a single state, and every increment must be counted. The lengths of the states differ
// widely, so a mixture would be detected.
func TestConsistentReads(t *testing.T) {
	server := s3test.Start(t)
	type count struct {
		N      int
		SHA256 [sha256.Size]byte
	}
	meta := func(n int, body []byte, long bool) storage.Meta {
		data := must[[]byte](t)(json.Marshal(count{n, sha256.Sum256(body)}))
		if long {
			data = append(data, bytes.Repeat([]byte(" "), 3000)...)
		}
		return storage.Meta{Data: data}
	}
	const writers, steps = 6, 20
	first := newStore(t, server, "mixed")
	must[storage.Version](t)(first.Create(t.Context(), "n", meta(0, nil, false), text("")))
	var all, readers sync.WaitGroup
	done := make(chan struct{})
	load := func(s *s3.Store) (storage.Version, []byte, count) {
		o := must[*storage.Object](t)(s.Get(t.Context(), "n", 0, -1))
		defer o.Body.Close()
		body := must[[]byte](t)(io.ReadAll(o.Body))
		var c count
		if err := json.Unmarshal(o.Meta.Data, &c); err != nil {
			t.Error(err)
		}
		if c.SHA256 != sha256.Sum256(body) {
			t.Errorf("state %d does not match its body", c.N)
		}
		return o.Version, body, c
	}
	for w := range writers {
		s := newStore(t, server, "mixed")
		all.Go(func() {
			for i := 0; i < steps; {
				version, body, c := load(s)
				next := bytes.Repeat([]byte{byte(c.N)}, (c.N*7919)%50_000)
				var err error
				if w%2 == 0 {
					_, err = s.Replace(t.Context(), "n", version, meta(c.N+1, next, i%2 == 0), storage.Bytes(next))
				} else {
					_, err = s.Append(t.Context(), "n", version, meta(c.N+1, append(body, "+"...), i%2 == 0), text("+"))
				}
				if err == nil {
					i++
				} else if !errors.Is(err, storage.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 3 {
		s := newStore(t, server, "mixed")
		readers.Go(func() {
			for last := 0; ; {
				select {
				case <-done:
					return
				default:
				}
				_, _, c := load(s)
				info := must[storage.Info](t)(s.Stat(t.Context(), "n"))
				var stat count
				if err := json.Unmarshal(info.Meta.Data, &stat); err != nil || stat.N < c.N || c.N < last {
					t.Errorf("read %d, then %d, then %d: %v", last, c.N, stat.N, err)
				}
				last = stat.N
			}
		})
	}
	all.Wait()
	close(done)
	readers.Wait()
	if _, _, c := load(first); c.N != writers*steps {
		t.Errorf("counter is %d, want %d: updates were lost", c.N, writers*steps)
	}
}

// TestObjects: objects can be read over plain HTTP.
func TestObjects(t *testing.T) {
	server := s3test.Start(t)
	s := newStore(t, server, "plain")
	client, bucket := rawClient(t, server)
	for name, c := range map[string]struct {
		meta  storage.Meta
		plain bool
	}{
		"page":     {storage.Meta{ContentType: "multipart/mixed; boundary=b", CacheControl: immutable, Data: []byte("{}")}, true},
		"long":     {storage.Meta{ContentType: "text/plain", CacheControl: immutable, Data: make([]byte, 5000)}, false},
		"changing": {storage.Meta{ContentType: "text/plain", CacheControl: "no-cache"}, false},
	} {
		must[storage.Version](t)(s.Create(t.Context(), name, c.meta, text("body")))
		response, err := http.Get(must[string](t)(s.Presign(t.Context(), name, time.Hour)))
		if err != nil {
			t.Fatal(err)
		}
		body := must[[]byte](t)(io.ReadAll(response.Body))
		response.Body.Close()
		if rest, ok := strings.CutPrefix(string(body), "body"); !ok || (rest == "") != c.plain || !strings.HasPrefix(rest, "\r\n") && rest != "" {
			t.Errorf("%s: the object is %.100q", name, body)
		}
		if h := response.Header; h.Get("Content-Type") != c.meta.ContentType || h.Get("Cache-Control") != c.meta.CacheControl {
			t.Errorf("%s: headers %v", name, h)
		}
		head := must[*sdk.HeadObjectOutput](t)(client.HeadObject(t.Context(), &sdk.HeadObjectInput{Bucket: bucket, Key: objectOf(server, "plain", name)}))
		if len(head.Metadata) != 1 {
			t.Errorf("%s: metadata %v, want one", name, head.Metadata)
		}
	}
	for _, valid := range []time.Duration{0, -time.Hour, 8 * 24 * time.Hour} {
		if _, err := s.Presign(t.Context(), "page", valid); err == nil {
			t.Errorf("presigned for %v", valid)
		}
	}
}

// TestPlainRecreated: Append and Replace of a plain object fail if the object was deleted and
// created again with the same bytes, and therefore with the same ETag.
func TestPlainRecreated(t *testing.T) {
	s := newStore(t, s3test.Start(t), "plain")
	ctx := t.Context()
	for verb, write := range map[string]func(storage.Version) (storage.Version, error){
		"Replace": func(v storage.Version) (storage.Version, error) {
			return s.Replace(ctx, "a", v, storage.Meta{}, text("x"))
		},
		"Append": func(v storage.Version) (storage.Version, error) {
			return s.Append(ctx, "a", v, storage.Meta{}, text("x"))
		},
	} {
		meta := storage.Meta{CacheControl: immutable}
		first := must[storage.Version](t)(s.Create(ctx, "a", meta, text("body")))
		if err := s.Delete(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		second := must[storage.Version](t)(s.Create(ctx, "a", meta, text("body")))
		if _, err := write(first); !errors.Is(err, storage.ErrConflict) {
			t.Errorf("%s at the previous version: %v", verb, err)
		}
		must[storage.Version](t)(write(second))
		if err := s.Delete(ctx, "a"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMetaSizes: metadata of any length is returned unchanged by every kind of read.
func TestMetaSizes(t *testing.T) {
	server := s3test.Start(t)
	small, large := newStore(t, server, "meta"), newStore(t, server, "meta", func(c *s3.Config) { c.Memory = 16 })
	for _, cache := range []string{"", immutable} {
		for _, n := range []int{0, 1, 1297, 1298, 1299, 1300, 1301, 4000, storage.MaxMeta} {
			for writer, w := range map[string]*s3.Store{"small": small, "large": large} {
				key := fmt.Sprintf("%s-%d-%d", writer, n, len(cache))
				want := storage.Meta{ContentType: "a/b", CacheControl: cache, Data: bytes.Repeat([]byte{0xfe}, n)}
				must[storage.Version](t)(w.Create(t.Context(), key, want, text("some body")))
				for reader, s := range map[string]*s3.Store{"small": small, "large": large} {
					info := must[storage.Info](t)(s.Stat(t.Context(), key))
					o := must[*storage.Object](t)(s.Get(t.Context(), key, 5, 3))
					body := must[[]byte](t)(io.ReadAll(o.Body))
					o.Body.Close()
					equal := cmp.Comparer(bytes.Equal)
					if string(body) != "bod" || !cmp.Equal(want, info.Meta, equal) || !cmp.Equal(info, o.Info, equal) {
						t.Errorf("%s read by %s: %q, metadata of %d and %d bytes", key, reader, body, len(info.Meta.Data), len(o.Meta.Data))
					}
				}
			}
		}
	}
}

// TestCorrupt changes stored bytes without using the driver.
func TestCorrupt(t *testing.T) {
	server := s3test.Start(t)
	client, bucket := rawClient(t, server)
	small, large := newStore(t, server, "rot"), newStore(t, server, "rot", func(c *s3.Config) { c.Memory = 16 })
	body := strings.Repeat("x", 100_000)
	version := must[storage.Version](t)(small.Create(t.Context(), "a", storage.Meta{}, text(body)))
	object := objectOf(server, "rot", "a")
	was := must[*sdk.GetObjectOutput](t)(client.GetObject(t.Context(), &sdk.GetObjectInput{Bucket: bucket, Key: object}))
	good := must[[]byte](t)(io.ReadAll(was.Body))
	was.Body.Close()
	for name, change := range map[string]func([]byte){
		"first": func(b []byte) { b[0] = 'y' }, "last": func(b []byte) { b[len(body)-1] = 'y' }, "trailer": func(b []byte) { b[len(b)-4] ^= 1 },
	} {
		bad := bytes.Clone(good)
		change(bad)
		must[*sdk.PutObjectOutput](t)(client.PutObject(t.Context(), &sdk.PutObjectInput{Bucket: bucket, Key: object, Metadata: was.Metadata, Body: bytes.NewReader(bad)}))
		if _, err := small.Get(t.Context(), "a", 5, 5); !errors.Is(err, s3.ErrCorrupt) || !strings.Contains(err.Error(), *object) {
			t.Errorf("%s: read whole: %v", name, err)
		}
		fresh := newStore(t, server, "rot")
		if _, err := fresh.Append(t.Context(), "a", version, storage.Meta{}, text("x")); !errors.Is(err, s3.ErrCorrupt) {
			t.Errorf("%s: append: %v", name, err)
		}
		if name == "trailer" {
			continue // a streaming reader stops before the trailer
		}
		o := must[*storage.Object](t)(large.Get(t.Context(), "a", 0, -1))
		got, err := io.ReadAll(o.Body)
		o.Body.Close()
		if !errors.Is(err, s3.ErrCorrupt) || len(got) != len(body)-1 {
			t.Errorf("%s: streamed %d bytes: %v", name, len(got), err)
		}
	}
	// An object written by another program does not belong to the store.
	must[*sdk.PutObjectOutput](t)(client.PutObject(t.Context(), &sdk.PutObjectInput{Bucket: bucket, Key: object, Body: strings.NewReader("other")}))
	if _, err := small.Get(t.Context(), "a", 0, -1); !errors.Is(err, s3.ErrCorrupt) || !strings.Contains(err.Error(), "another program wrote it") {
		t.Errorf("another program's object: %v", err)
	}
}

func objectOf(server *s3test.Server, prefix, key string) *string {
	path, _, _ := strings.Cut(strings.TrimPrefix(server.URL(prefix), "s3://"), "?")
	_, path, _ = strings.Cut(path, "/")
	return aws.String(path + "/" + key)
}

// TestMemoryExhausted opens more objects than fit into memory. They must be read correctly, and
// closing them must free their memory.
func TestMemoryExhausted(t *testing.T) {
	server := s3test.Start(t)
	s := newStore(t, server, "room", func(c *s3.Config) { c.Memory = 16_000 })
	client, bucket := rawClient(t, server)
	body := strings.Repeat("0123456789", 90)
	must[storage.Version](t)(s.Create(t.Context(), "a", storage.Meta{}, text(body)))
	for range 2 {
		var open []*storage.Object
		for i := range 30 {
			o := must[*storage.Object](t)(s.Get(t.Context(), "a", int64(i), 10))
			open = append(open, o)
		}
		for i, o := range open {
			if got := must[[]byte](t)(io.ReadAll(o.Body)); string(got) != body[i:i+10] {
				t.Errorf("%d: got %q", i, got)
			}
			o.Body.Close()
		}
	}
	// If an object fits into memory, it is verified even if only a range of it is read.
	was := must[*sdk.HeadObjectOutput](t)(client.HeadObject(t.Context(), &sdk.HeadObjectInput{Bucket: bucket, Key: objectOf(server, "room", "a")}))
	rotten := strings.Repeat("x", int(*was.ContentLength))
	var open []*storage.Object
	for range 30 {
		open = append(open, must[*storage.Object](t)(s.Get(t.Context(), "a", 0, 10)))
	}
	must[*sdk.PutObjectOutput](t)(client.PutObject(t.Context(), &sdk.PutObjectInput{
		Bucket: bucket, Key: objectOf(server, "room", "a"), Metadata: was.Metadata, Body: strings.NewReader(rotten),
	}))
	o := must[*storage.Object](t)(s.Get(t.Context(), "a", 5, 10))
	if got, err := io.ReadAll(o.Body); len(got) == 10 || !errors.Is(err, s3.ErrCorrupt) {
		t.Errorf("range of a damaged object: %q, %v", got, err)
	}
	for _, o := range append(open, o) {
		o.Body.Close()
	}
}

// TestNoPrefix uses a whole bucket as a store.
func TestNoPrefix(t *testing.T) {
	server := s3test.Start(t)
	if server.Dir == "" {
		return // the bucket may hold other objects
	}
	s := newStore(t, server, "")
	version := must[storage.Version](t)(s.Create(t.Context(), "a/b", storage.Meta{}, text("1")))
	must[storage.Version](t)(s.Append(t.Context(), "a/b", version, storage.Meta{}, text("2")))
	var keys []string
	for entry, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, entry.Key)
	}
	if got := read(t, s, "a/b"); got != "12" || !slices.Equal(keys, []string{"a/b"}) {
		t.Errorf("got %q; the bucket has %q", got, keys)
	}
	if _, err := s.Sweep(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if err := s.Delete(t.Context(), "a/b"); err != nil {
		t.Error(err)
	}
}
