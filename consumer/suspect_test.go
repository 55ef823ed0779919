package consumer

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/feedctl/feedctl/feed"
)

// TestStillDamaged: a page is damaged in a way that is revealed only by its digest, its coding, or
// the length of a streamed part. Of several runs, only the first delivers entities of this page.
func TestStillDamaged(t *testing.T) {
	zip := func(page string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(page))
		_ = w.Close()
		return b.Bytes()
	}
	trailer := zip(damagedPage)
	trailer[len(trailer)-8] ^= 1
	merged := strings.Replace(damagedPage, "two\r\n--b", "two\r\n-\x00b", 1)
	for name, way := range map[string]struct {
		header     http.Header
		bad, whole []byte
		config     Config
	}{
		"digest": {reprDigest([]byte(damagedPage)), []byte(strings.Replace(damagedPage, "two", "tow", 1)), []byte(damagedPage), Config{}},
		"coding": {http.Header{"Content-Encoding": {"gzip"}}, trailer, zip(damagedPage), Config{}},
		"length": {nil, []byte(merged), []byte(damagedPage), Config{MaxWhole: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			body := way.bad
			way.config.MaxHeld, way.config.ReadAhead, way.config.Retry.Attempts = 1, 64, 1
			way.config.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				header := http.Header{
					"Content-Type": {`multipart/mixed; boundary="b"`}, "Link": {`<http://feed.test/>; rel="self"`},
					"Last-Modified": {"Mon, 27 Nov 2023 03:10:00 GMT"},
				}
				for name, values := range way.header {
					header[name] = values
				}
				return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(iotest.OneByteReader(bytes.NewReader(body))), ContentLength: -1, Request: r}, nil
			})}
			client, err := New(way.config)
			if err != nil {
				t.Fatal(err)
			}
			sink := &memorySink{t: t}
			job := Job{Client: client, URL: "http://feed.test/", Sink: sink, BatchEntities: 1}
			var got string
			for n := range 11 {
				stats, err := job.Run(t.Context())
				if !errors.Is(err, ErrDamaged) || n == 0 && stats.Entities == 0 {
					t.Fatalf("%+v: %v", stats, err)
				}
				if n == 0 {
					got = strings.Join(sink.got, " ")
				}
			}
			sink.expect(got)
			if sink.at.Damaged != "http://feed.test/" {
				t.Errorf("the position is %+v", sink.at)
			}
			body = way.whole
			if _, err := job.Run(t.Context()); err != nil || sink.at.Damaged != "" || sink.at.ContentID != "<3>" {
				t.Errorf("after the repair: %v, the position is %+v", err, sink.at)
			}
			sink.expect(got + " <1> <2> <3>")
		})
	}
}

// TestDamagedPageIsGone: a job continues if the page that was damaged no longer exists.
func TestDamagedPageIsGone(t *testing.T) {
	inWorld(t, newFeed("a0 b1 | c1 d2"), func(t *testing.T, w *world) {
		for _, damaged := range []string{"http://feed.test/gone", "http://other.test/1"} {
			sink := &memorySink{t: t, at: feed.Position{LastModified: second(1), Feed: feedURL, Damaged: damaged}}
			if _, err := runJob(t, Job{Client: w.newClient(Config{}), Sink: sink}); err != nil {
				t.Errorf("%s: %v", damaged, err)
			}
			sink.expect("b c d")
		}
	})
}

// TestDamagedPageInMemory: checking whether a large page is still damaged takes bounded memory.
func TestDamagedPageInMemory(t *testing.T) {
	const parts, size = 256, 128 << 10
	part := fmt.Appendf(nil, "--b\r\nLast-Modified: Mon, 27 Nov 2023 03:10:00 GMT\r\nContent-Type: text/plain\r\nContent-ID: <1>\r\n"+
		"Operation-Type: http-equiv=PUT\r\nContent-Length: %d\r\n\r\n%s\r\n", size, bytes.Repeat([]byte("x"), size))
	client, err := New(Config{HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		var all []io.Reader
		for range parts {
			all = append(all, bytes.NewReader(part))
		}
		header := reprDigest([]byte("another page"))
		header["Content-Type"], header["Link"] = []string{`multipart/mixed; boundary="b"`}, []string{`<http://feed.test/>; rel="self"`}
		header["Last-Modified"] = []string{"Mon, 27 Nov 2023 03:10:00 GMT"}
		body := io.MultiReader(append(all, strings.NewReader("--b--\r\n"))...)
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(body), ContentLength: -1, Request: r}, nil
	})}})
	if err != nil {
		t.Fatal(err)
	}
	sink := &memorySink{t: t, at: feed.Position{LastModified: second(0), Feed: "http://feed.test/", Damaged: "http://feed.test/"}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = runJob(t, Job{Client: client, URL: "http://feed.test/", Sink: sink})
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("error %v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > parts*size/2 {
		t.Errorf("%d bytes were allocated for a page of %d", used, parts*size)
	}
	sink.expect("")
}
