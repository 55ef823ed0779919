package kinto_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/feedctl/feedctl/kinto"
)

func ExampleCollection_List() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // Kinto
		w.Header().Set("ETag", `"1795381209972"`)
		if r.URL.Query().Get("_token") == "" {
			w.Header().Set("Next-Page", "http://behind-a-proxy"+r.URL.Path+"?_token=two")
			fmt.Fprint(w, `{"data":[{"title":"Hello","id":"a","last_modified":1795381209808}]}`)
			return
		}
		fmt.Fprint(w, `{"data":[{"id":"b","last_modified":1795381209972,"deleted":true}]}`)
	}))
	defer server.Close()
	articles, err := kinto.Open(kinto.Config{URL: server.URL + "/v1/buckets/blog/collections/articles"})
	if err != nil {
		log.Fatal(err)
	}
	q := kinto.Query{Sort: kinto.OldestFirst, Tombstones: true}
	for {
		page, err := articles.List(context.Background(), q, func(r kinto.Row) error {
			fmt.Println(r.ID, r.Stamp, r.Deleted)
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
		if page.Next == "" {
			break
		}
		q.Token = page.Next
	}
	// Output:
	// a 1795381209808 false
	// b 1795381209972 true
}
