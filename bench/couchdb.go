package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/feedctl/feedctl/internal/couchtest"
)

// The data of the bridge's measurements.
const (
	couchDocSize        = 500 // bytes of JSON
	couchAttached       = 1_000
	couchAttachmentSize = 10 << 10
)

// replicatorAttached is how many documents a second, each with an attachment of 10 KB, CouchDB's
// own replicator moved between two databases of one server with 2 cores. The replicator cannot be
// run here.
const replicatorAttached = 171

// couchdb bridges a database into a feed. The alternative is curl, which reads the
// same changes from the same server and throws them away.
func (b *bench) couchdb() error {
	return b.withCouchDB(func(server string) error {
		if err := b.couchDocuments(server); err != nil {
			return err
		}
		return b.couchAttachments(server)
	})
}

// withCouchDB calls the function use with the URL of a server: the one that -couchdb names, or
// PouchDB's engine.
func (b *bench) withCouchDB(use func(server string) error) error {
	if b.couchURL != "" {
		return use(strings.TrimSuffix(b.couchURL, "/"))
	}
	dir := filepath.Join(b.dir, "couchdb")
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	server, err := couchtest.Launch(dir)
	if err != nil {
		return err
	}
	defer server.Kill()
	return use(server.URL())
}

func (b *bench) couchDocuments(server string) error {
	db, err := b.newCouchDB(server, "feedctl-bench")
	if err != nil {
		return err
	}
	if err := b.fillCouchDB(db, b.couchDocs, func(i int) map[string]any {
		const frame = len(`{"_id":"doc-00000000","_rev":"1-0123456789abcdef0123456789abcdef","n":00000000,"text":""}`)
		return map[string]any{"_id": fmt.Sprintf("doc-%08d", i), "n": 10_000_000 + i, "text": strings.Repeat("x", couchDocSize-frame)}
	}); err != nil {
		return err
	}
	count := float64(b.couchDocs)
	name := fmt.Sprintf("bridge %d documents of %d B", b.couchDocs, couchDocSize)
	const changes = "/_changes?include_docs=true"
	for _, kind := range []struct {
		name  string
		flags []string
		goal  target
	}{
		{"", nil, atLeastRatio(0.8)},
		{", all leaves", []string{"--revs", "--conflicts"}, noTarget()},
	} {
		ours, other, err := b.besideCurl(db, changes, kind.flags...)
		if err != nil {
			return err
		}
		b.report.add(name+kind.name, "documents/s", count/ours.took.Seconds(), count/other.Seconds(), "curl of _changes with documents to /dev/null", kind.goal)
		b.reportMemory("bridge"+kind.name, ours.process)
		if kind.flags == nil {
			continue
		}
		bare, err := b.fetchBare(db, false, "application/json")
		if err != nil {
			return err
		}
		b.report.add(name+kind.name, "documents/s", count/ours.took.Seconds(), count/bare.Seconds(), sameRequests, noTarget())
	}
	return nil
}

// sameRequests is the name under which the result of fetchBare is reported.
const sameRequests = "the same requests, answers thrown away"

type bridging struct {
	*process
	took time.Duration
}

// couchRounds is how many times the bridge and curl are run, in turn. For each, the fastest time
// and the highest memory use are kept.
const couchRounds = 3

// besideCurl bridges a database, and has curl read its changes.
func (b *bench) besideCurl(db, changes string, flags ...string) (ours bridging, curl time.Duration, err error) {
	for round := range couchRounds {
		_, read, err := b.run(nil, "curl", "-sf", "-o", os.DevNull, db+changes)
		if err != nil {
			return ours, 0, err
		}
		p, took, err := b.bridge(db, "feed-"+rand.Text(), flags...)
		if err != nil {
			return ours, 0, err
		}
		if round == 0 {
			ours, curl = bridging{p, took}, read
			continue
		}
		p.peak = max(p.peak, ours.peak)
		ours, curl = bridging{p, min(took, ours.took)}, min(read, curl)
	}
	return ours, curl, nil
}

func (b *bench) couchAttachments(server string) error {
	db, err := b.newCouchDB(server, "feedctl-bench-attachments")
	if err != nil {
		return err
	}
	if err := b.fillCouchDB(db, couchAttached, func(i int) map[string]any {
		data := bytes.Repeat([]byte{byte(i), byte(i >> 8), 7, 11}, couchAttachmentSize/4)
		return map[string]any{"_id": fmt.Sprintf("doc-%08d", i), "_attachments": map[string]any{
			"data": map[string]any{"content_type": "image/png", "data": base64.StdEncoding.EncodeToString(data)},
		}}
	}); err != nil {
		return err
	}
	const name = "bridge 1,000 attachments of 10 KB"
	accept := map[string]string{"inline": "application/json", "multipart": "multipart/mixed"}
	for _, form := range []string{"inline", "multipart"} {
		ours, curl, err := b.besideCurl(db, "/_changes?include_docs=true&attachments=true", "--revs", "--attachments", form)
		if err != nil {
			return err
		}
		rate := couchAttached / ours.took.Seconds()
		b.report.add(name+", "+form, "documents/s", rate, replicatorAttached, "CouchDB's replicator on 2 cores, not in this run", atLeast(10*replicatorAttached))
		b.report.add(name+", "+form, "documents/s", rate, couchAttached/curl.Seconds(), "curl of _changes with attachments to /dev/null", noTarget())
		b.reportMemory("bridge of attachments, "+form, ours.process)
		bare, err := b.fetchBare(db, true, accept[form])
		if err != nil {
			return err
		}
		b.report.add(name+", "+form, "documents/s", rate, couchAttached/bare.Seconds(), sameRequests, noTarget())
	}
	return b.couchNoNews(db)
}

// couchNoNews counts the requests of a bridge that has nothing to do.
func (b *bench) couchNoNews(db string) error {
	var requests atomic.Int64
	counted, err := countRequests(db, &requests)
	if err != nil {
		return err
	}
	defer counted.Close()
	source := counted.URL + db[strings.LastIndexByte(db, '/'):]
	for range 2 {
		requests.Store(0)
		if _, _, err := b.bridge(source, "no-news"); err != nil {
			return err
		}
	}
	b.report.add("bridge without news", "requests", float64(requests.Load()), 3, "limit", atMostRatio(1)) // log, changes, current sequence: docs/couchdb.md
	return nil
}

// bridge publishes a database to a feed of the store "couchdb".
func (b *bench) bridge(source, feed string, flags ...string) (*process, time.Duration, error) {
	args := []string{
		"bridge", "couchdb", source, feed, "--store", "file:" + filepath.Join(b.dir, "couchdb-feeds"),
		"--index", filepath.Join(b.dir, "couchdb-index-"+feed), "--log-level", "warn",
	}
	return b.run(nil, b.feedctl, append(args, flags...)...)
}

// countRequests returns a proxy that passes requests on to the server of a database, and counts
// them in n.
func countRequests(db string, n *atomic.Int64) (*httptest.Server, error) {
	u, err := url.Parse(db)
	if err != nil {
		return nil, err
	}
	u.Path = ""
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		proxy.ServeHTTP(w, r)
	})), nil
}

// newCouchDB makes an empty database and returns its URL.
func (b *bench) newCouchDB(server, name string) (string, error) {
	db := server + "/" + name
	if err := b.couchRequest(http.MethodDelete, db, nil); err != nil && !errors.Is(err, errNoCouchDB) {
		return "", err
	}
	return db, b.couchRequest(http.MethodPut, db, nil)
}

// fillCouchDB stores documents, many at a time.
func (b *bench) fillCouchDB(db string, n int, doc func(i int) map[string]any) error {
	const batch = 1000
	for first := 0; first < n; first += batch {
		var docs []any
		for i := first; i < min(first+batch, n); i++ {
			docs = append(docs, doc(i))
		}
		if err := b.couchRequest(http.MethodPost, db+"/_bulk_docs", map[string]any{"docs": docs}); err != nil {
			return err
		}
	}
	return nil
}

var errNoCouchDB = errors.New("the database does not exist")

func (b *bench) couchRequest(method, address string, in any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	return b.couchSend(method, address, body)
}

// couchSend sends JSON.
func (b *bench) couchSend(method, address string, body []byte) error {
	r, err := http.NewRequestWithContext(b.ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	switch {
	case err != nil:
		return err
	case response.StatusCode == http.StatusNotFound:
		return errNoCouchDB
	case response.StatusCode >= http.StatusBadRequest:
		return fmt.Errorf("%s %s: %s: %.300s", method, r.URL.Redacted(), response.Status, text)
	}
	return nil
}
