package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// couchBulk is how many documents the sink sends in a request. It sends one request after another.
const couchBulk = 500

// sinkCouchDB consumes a feed into a database: documents of a bridge, which are replicated with
// their revisions, and JSON from elsewhere. The alternative is a loop that stores the same
// documents with _bulk_docs, in requests of the same size, without a log or a position. Both begin
// with an empty database.
func (b *bench) sinkCouchDB() error {
	return b.withCouchDB(func(server string) error {
		if err := b.sinkRevisions(server); err != nil {
			return err
		}
		return b.sinkChanges(server)
	})
}

// sunkDocs is how many documents are consumed.
func (b *bench) sunkDocs() int { return max(b.couchDocs/5, 1) }

func (b *bench) sinkRevisions(server string) error {
	source, err := b.newCouchDB(server, "feedctl-bench-source")
	if err != nil {
		return err
	}
	if err := b.storeDocuments(source, revisionOf); err != nil {
		return err
	}
	if _, _, err := b.bridge(source, "revisions", "--revs"); err != nil {
		return err
	}
	return b.besideBulk(server, "file:"+filepath.Join(b.dir, "couchdb-feeds")+"#revisions", "with revisions", revisionOf)
}

func (b *bench) sinkChanges(server string) error {
	name := filepath.Join(b.dir, "couchdb.ndjson")
	var lines strings.Builder
	for i := range b.sunkDocs() {
		fmt.Fprintf(&lines, "{%s}\n", sunkDoc(i))
	}
	if err := os.WriteFile(name, []byte(lines.String()), 0o666); err != nil {
		return err
	}
	store := "file:" + filepath.Join(b.dir, "couchdb-changes")
	if _, _, err := b.run(nil, b.feedctl, "publish", "changes", name, "--key", "/id", "--store", store); err != nil {
		return err
	}
	return b.besideBulk(server, store+"#changes", "from elsewhere", func(i int) string {
		return fmt.Sprintf(`{"_id":"doc-%08d",%s,"feedctl":{"contentId":"<%026x-1@changes>","lastModified":"2026-01-01T00:00:00.000Z","contentType":"application/json","headers":{}}}`, i, sunkDoc(i), i)
	})
}

// sunkDoc returns the members of document i, about 500 bytes of JSON with its id and revision.
func sunkDoc(i int) string {
	return fmt.Sprintf(`"id":"doc-%08d","n":%d,"text":%q`, i, 10_000_000+i, strings.Repeat("x", couchDocSize-100))
}

// revisionOf returns document i as CouchDB's replicator stores it.
func revisionOf(i int) string {
	return fmt.Sprintf(`{"_id":"doc-%08d","_rev":"1-%032x","_revisions":{"start":1,"ids":["%032x"]},%s}`, i, i, i, sunkDoc(i))
}

func (b *bench) besideBulk(server, feed, kind string, doc func(i int) string) error {
	other, err := b.newCouchDB(server, "feedctl-bench-other")
	if err != nil {
		return err
	}
	start := time.Now()
	if err := b.storeDocuments(other, doc); err != nil {
		return err
	}
	loop := time.Since(start)
	ours, err := b.newCouchDB(server, "feedctl-bench-ours")
	if err != nil {
		return err
	}
	p, took, err := b.run(nil, b.feedctl, "consume", feed, "--into", "couchdb:"+ours, "--log-level", "warn")
	if err != nil {
		return err
	}
	count := float64(b.sunkDocs())
	b.report.add(fmt.Sprintf("consume %d documents of %d B, %s", b.sunkDocs(), couchDocSize, kind), "documents/s",
		count/took.Seconds(), count/loop.Seconds(), fmt.Sprintf("POST _bulk_docs of %d in a loop", couchBulk), atLeastRatio(0.9))
	b.reportMemory("consume into CouchDB, "+kind, p)
	return nil
}

// storeDocuments stores all documents. Those with a revision keep it.
func (b *bench) storeDocuments(db string, doc func(i int) string) error {
	edits := !strings.Contains(doc(0), `"_rev"`)
	for first := 0; first < b.sunkDocs(); first += couchBulk {
		var docs []string
		for i := first; i < min(first+couchBulk, b.sunkDocs()); i++ {
			docs = append(docs, doc(i))
		}
		body := fmt.Sprintf(`{"new_edits":%t,"docs":[%s]}`, edits, strings.Join(docs, ","))
		if err := b.couchSend(http.MethodPost, db+"/_bulk_docs", []byte(body)); err != nil {
			return err
		}
	}
	return nil
}
