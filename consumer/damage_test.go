package consumer

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/feedctl/feedctl/feed"
)

// damagedPage is the one page of a feed.
const damagedPage = "--b\r\nLast-Modified: Mon, 27 Nov 2023 03:10:00 GMT\r\nContent-Type: text/plain\r\nContent-ID: <1>\r\n" +
	"Operation-Type: http-equiv=PUT\r\nContent-Length: 3\r\n\r\none\r\n" +
	"--b\r\nLast-Modified: Mon, 27 Nov 2023 03:10:00 GMT\r\nContent-Type: text/plain\r\nContent-ID: <2>\r\n" +
	"Operation-Type: http-equiv=PUT\r\nContent-Length: 3\r\n\r\ntwo\r\n" +
	"--b\r\nLast-Modified: Mon, 27 Nov 2023 03:10:00 GMT\r\nContent-Type: text/plain\r\nContent-ID: <3>\r\n" +
	"Operation-Type: http-equiv=DELETE\r\nContent-Length: 0\r\n\r\n\r\n--b--\r\n"

const wholePage = "<1>PUT one\n<2>PUT two\n<3>DELETE \n"

// cutHere at the end of a body stands for a lost connection.
const cutHere = "CUT"

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// readDamaged reads a feed of one page, requests for which are answered with the given bodies in turn, the last one
// repeatedly. It returns the delivered entities.
func readDamaged(c Config, h http.Header, bodies ...[]byte) (string, error) {
	c.Retry.Attempts = 2
	c.HTTPClient = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		body := bodies[0]
		if len(bodies) > 1 && r.Method == http.MethodGet {
			bodies = bodies[1:]
		}
		header := http.Header{
			"Content-Type": {`multipart/mixed; boundary="b"`}, "Link": {`<http://feed.test/>; rel="self"`},
			"Last-Modified": {"Mon, 27 Nov 2023 03:10:00 GMT"}, "Etag": {`"1"`},
		}
		for name, values := range h {
			header[name] = values
		}
		content := io.Reader(bytes.NewReader(body))
		if bytes.HasSuffix(body, []byte(cutHere)) {
			content = io.MultiReader(bytes.NewReader(body[:len(body)-len(cutHere)]), iotest.ErrReader(io.ErrUnexpectedEOF))
		}
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(content), ContentLength: -1, Request: r}, nil
	})}
	client, err := New(c)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for p, err := range client.Pages(context.Background(), "http://feed.test/", Beginning()) {
		if err != nil {
			return out.String(), err
		}
		for e, err := range p.Entities() {
			if err != nil {
				return out.String(), err
			}
			body := e.Body
			if e.Stream != nil {
				if body, err = io.ReadAll(e.Stream); err != nil {
					return out.String(), err
				}
			}
			fmt.Fprintf(&out, "%s%s %s\n", e.ContentID, e.Operation, body)
		}
	}
	return out.String(), nil
}

func reprDigest(body []byte) http.Header {
	sum := sha256.Sum256(body)
	return http.Header{"Repr-Digest": {"sha-512=:AA==:, sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"}}
}

// TestBitFlips changes each bit of a page in transit. Damaged entities are never delivered without an error,
// and no entity of a damaged page that is held in memory is delivered.
func TestBitFlips(t *testing.T) {
	var gz, zs bytes.Buffer
	zipped := gzip.NewWriter(&gz)
	_, _ = zipped.Write([]byte(damagedPage))
	_ = zipped.Close()
	encoder, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = encoder.Write([]byte(damagedPage))
	_ = encoder.Close()
	gzipDigest := reprDigest(gz.Bytes()) // the digest of the bytes that are sent (RFC 9530, section 3)
	gzipDigest.Set("Content-Encoding", "gzip")
	for name, way := range map[string]struct {
		body   []byte
		header http.Header
	}{
		"digest":          {[]byte(damagedPage), reprDigest([]byte(damagedPage))},
		"gzip":            {gz.Bytes(), http.Header{"Content-Encoding": {"gzip"}}},
		"gzip and digest": {gz.Bytes(), gzipDigest},
		"zstd":            {zs.Bytes(), http.Header{"Content-Encoding": {"zstd"}}},
	} {
		for held, config := range map[string]Config{"held": {ReadAhead: 256}, "not held": {MaxHeld: 1, ReadAhead: 64}, "streams": {MaxHeld: 1, ReadAhead: 64, MaxWhole: 1}} {
			t.Run(name+"/"+held, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					for bit := range len(way.body) * 8 {
						if (held != "held" || way.header.Get("Repr-Digest") != "") && bit%8 != bit/8%8 {
							continue // test only one bit of each byte
						}
						if testing.Short() && bit/8%4 > 0 {
							continue // and only every fourth byte with the race detector
						}
						damaged := bytes.Clone(way.body)
						damaged[bit/8] ^= 1 << (bit % 8)
						got, err := readDamaged(config, way.header, damaged)
						switch {
						case err == nil && got != wholePage:
							t.Errorf("bit %d: got %q without error", bit, got)
						case err != nil && held == "held" && got != "":
							t.Errorf("bit %d: got %q before %v", bit, got, err)
						case err != nil && (strings.Contains(got, "<3>") || strings.Count(got, "\n") == 3):
							t.Errorf("bit %d: got the last entity before %v", bit, err)
						}
						// A page that is damaged once is requested again, unless some of its entities were delivered.
						if got, err := readDamaged(config, way.header, damaged, way.body); err == nil && got != wholePage {
							t.Errorf("bit %d, damaged once: got %q without error", bit, got)
						} else if err != nil && held == "held" {
							t.Errorf("bit %d, damaged once: %v", bit, err)
						}
					}
				})
			})
		}
	}
}

// TestCutAndDamaged: a large page is truncated after a damaged byte, and arrives intact the next time. The damage to
// the entities delivered the first time is detected.
func TestCutAndDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = len(damagedPage) - 40
		cut := strings.Replace(damagedPage, "one", "eno", 1)[:size]
		for _, body := range [][]byte{[]byte(cut + cutHere), []byte(cut)} {
			got, err := readDamaged(Config{MaxHeld: 1, ReadAhead: 64}, reprDigest([]byte(damagedPage)), body, []byte(damagedPage))
			if !errors.Is(err, ErrDamaged) || Retryable(err) || strings.Contains(got, "<3>") {
				t.Errorf("got %q and error %v", got, err)
			}
		}
		good := []byte(damagedPage[:size] + cutHere)
		if got, err := readDamaged(Config{MaxHeld: 1, ReadAhead: 64}, reprDigest([]byte(damagedPage)), good, []byte(damagedPage)); err != nil || got != wholePage {
			t.Errorf("cut, but not damaged: got %q and error %v", got, err)
		}
	})
}

// TestMergedEntities: a damaged delimiter must not merge two entities.
func TestMergedEntities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := strings.Index(damagedPage, "one\r\n--b") + len("one\r\n")
		damaged := []byte(damagedPage)
		damaged[at] ^= 1
		for _, whole := range []int{0, 1} {
			got, err := readDamaged(Config{MaxWhole: whole}, nil, damaged)
			if !errors.Is(err, ErrDamaged) || got != "" {
				t.Errorf("got %q and error %v", got, err)
			}
			if got, err := readDamaged(Config{MaxWhole: whole}, nil, damaged, []byte(damagedPage)); whole == 0 && (err != nil || got != wholePage) {
				t.Errorf("damaged once: got %q and error %v", got, err)
			}
		}
	})
}

// TestPromisedLength: a page that arrives as it was sent, but has a wrong Content-Length in a part, is the producer's
// error, and is not requested again.
func TestPromisedLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := []byte(strings.Replace(damagedPage, "Content-Length: 3", "Content-Length: 4", 1))
		if got, err := readDamaged(Config{}, reprDigest(wrong), wrong); err == nil || errors.Is(err, ErrDamaged) || Retryable(err) {
			t.Errorf("got %q and error %v", got, err)
		}
	})
}

// A verifiedSource has one page, whose body it verifies.
type verifiedSource struct{ end error }

func (s verifiedSource) Get(context.Context, Request) (*Response, error) {
	return &Response{
		URL: "feed:1", Boundary: "b", LastModified: time.Date(2023, 11, 27, 3, 10, 0, 0, time.UTC), Links: feed.Links{Self: "feed:1"},
		Body:     io.NopCloser(io.MultiReader(strings.NewReader(damagedPage), iotest.ErrReader(s.end))),
		Verified: true,
	}, nil
}

// TestVerifiedBySource: if the source verifies a body, no entity in it is delivered before the body has been read to
// its end, just as for a body with a digest.
func TestVerifiedBySource(t *testing.T) {
	wrong := permanentError{errors.New("wrong")}
	for name, end := range map[string]struct {
		err  error
		want string
	}{"whole": {io.EOF, wholePage}, "wrong": {wrong, ""}} {
		t.Run(name, func(t *testing.T) {
			client, err := New(Config{Source: verifiedSource{end.err}})
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for e, wrong := range client.Entities(t.Context(), "feed:", Beginning()) {
				if err = wrong; err != nil {
					break
				}
				fmt.Fprintf(&got, "%s%s %s\n", e.ContentID, e.Operation, e.Body)
			}
			if got.String() != end.want || (err == nil) != (end.err == io.EOF) || err != nil && !errors.Is(err, wrong) {
				t.Errorf("got %q and error %v", got.String(), err)
			}
		})
	}
}
