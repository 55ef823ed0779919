package couchdb_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/sink/sinktest"
)

const benchBatch = 1000

func BenchmarkSink(b *testing.B) { sinktest.Benchmark(b, options(b, couchtest.NewDB)) }

// revisionText returns a document of 500 bytes with its revision.
func revisionText(n int) string {
	text := fmt.Sprintf(`{"_id":"user-%012d","_rev":"1-%032x","_revisions":{"start":1,"ids":["%032x"]},"name":"Ada Lovelace","text":"`, n, n, n)
	return text + strings.Repeat("x", 500-len(text)-2) + `"}`
}

// BenchmarkRevisions stores documents from CouchDB with their revisions. An operation is one document.
func BenchmarkRevisions(b *testing.B) {
	k, err := impatient(b.Context(), couchtest.NewDB(b), 1, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	b.SetBytes(500)
	b.ReportAllocs()
	var batch []*feed.Entity
	flush := func() {
		if err := sinktest.Write(b.Context(), k, batch...); err != nil {
			b.Fatal(err)
		}
		batch = batch[:0]
	}
	for n := 0; b.Loop(); n++ {
		batch = append(batch, fromCouch(n, "application/json", revisionText(n), fmt.Sprintf("user-%012d", n), fmt.Sprintf("1-%032x", n), false))
		if len(batch) == benchBatch {
			flush()
		}
	}
	if len(batch) > 0 {
		flush()
	}
}

// BenchmarkStraight only sends the same documents to _bulk_docs.
func BenchmarkStraight(b *testing.B) {
	db := couchtest.NewDB(b)
	b.SetBytes(500)
	var docs bytes.Buffer
	count := 0
	flush := func() {
		couchtest.Send(b, http.MethodPost, db+"/_bulk_docs", `{"new_edits":false,"docs":[`+docs.String()+`]}`)
		docs.Reset()
		count = 0
	}
	for n := 0; b.Loop(); n++ {
		if count > 0 {
			docs.WriteByte(',')
		}
		docs.WriteString(revisionText(n))
		if count++; count == benchBatch {
			flush()
		}
	}
	if count > 0 {
		flush()
	}
}
