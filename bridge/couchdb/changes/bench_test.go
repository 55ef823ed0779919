package changes_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
)

// BenchmarkRead compares the follower with a client that only receives, over a loopback connection:
// 20,000 documents of 500 bytes with sequences like CouchDB's.
func BenchmarkRead(b *testing.B) {
	const n = 20000
	var feed bytes.Buffer
	feed.WriteString(`{"results":[` + "\n")
	for i := range n {
		if i > 0 {
			feed.WriteString(",\r\n")
		}
		seq, rev := fmt.Sprintf("%d-%s", i, strings.Repeat("g1AAAACbeJzLYWBg", 7)), fmt.Sprintf("1-%032x", i)
		doc := fmt.Sprintf(`{"_id":"doc%08d","_rev":%q,"name":"no one","n":%d.25,"tags":["one","two"],"text":"`, i, rev, i)
		doc += strings.Repeat("lorem ipsum ", (500-len(doc))/12) + `"}`
		fmt.Fprintf(&feed, `{"seq":%q,"id":"doc%08d","changes":[{"rev":%q}],"doc":%s}`, seq, i, rev, doc)
	}
	feed.WriteString("\n],\n\"last_seq\":\"end\",\"pending\":0}\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/db" {
			_, _ = io.WriteString(w, `{"update_seq":1}`)
			return
		}
		_, _ = w.Write(feed.Bytes())
	}))
	defer server.Close()
	db, err := couchdb.Open(couchdb.Config{URL: server.URL + "/db"})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("receive", func(b *testing.B) {
		b.SetBytes(int64(feed.Len()))
		for b.Loop() {
			resp, err := http.Get(server.URL + "/db/_changes")
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				b.Fatal(err)
			}
			resp.Body.Close()
		}
		b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
	b.Run("follow", func(b *testing.B) {
		b.SetBytes(int64(feed.Len()))
		b.ReportAllocs()
		for b.Loop() {
			f, err := changes.New(db, changes.Options{IncludeDocs: true})
			if err != nil {
				b.Fatal(err)
			}
			rows := 0
			err = f.Follow(b.Context(), func(batch *changes.Batch) error {
				rows += len(batch.Rows)
				batch.Close()
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			if rows != n {
				b.Fatalf("%d rows", rows)
			}
		}
		b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}
