package changes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
)

// Read what has changed since a stored position.
func Example() {
	// This server stands for a CouchDB.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/recipes" {
			_, _ = io.WriteString(w, `{"db_name":"recipes","update_seq":"2-g1AB","instance_start_time":"1795176138","cluster":{"q":2}}`)
			return
		}
		_, _ = io.WriteString(w, `{"results":[
{"seq":"2-g1AB","id":"soup","changes":[{"rev":"3-c0ffee"}],"doc":{"_id":"soup","_rev":"3-c0ffee","litres":1.50}}
],
"last_seq":"2-g1AB","pending":0}`)
	}))
	defer server.Close()

	db, err := couchdb.Open(couchdb.Config{URL: server.URL + "/recipes"})
	if err != nil {
		log.Fatal(err)
	}
	f, err := changes.New(db, changes.Options{IncludeDocs: true, Since: []byte(`"1-g1AA"`), Instance: "1795176138"})
	if err != nil {
		log.Fatal(err)
	}
	var position json.RawMessage
	err = f.Follow(context.Background(), func(b *changes.Batch) error {
		defer b.Close()
		for _, row := range b.Rows {
			fmt.Printf("%s %s: %s\n", row.ID, row.Revs[0], row.Doc.Bytes())
		}
		position = b.Seq // store it with the rows, and the instance
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("continue from %s of %s\n", position, f.Instance())
	// Output:
	// soup 3-c0ffee: {"_id":"soup","_rev":"3-c0ffee","litres":1.50}
	// continue from "2-g1AB" of 1795176138
}
