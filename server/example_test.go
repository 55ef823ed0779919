package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
)

// A server is an http.Handler.
func Example() {
	store := memory.New()
	handler, err := server.New(store, server.Config{Writable: true, PublicURL: "https://data.example.org"})
	if err != nil {
		log.Fatal(err)
	}
	defer handler.Close(context.Background())
	listener := httptest.NewServer(handler)
	defer listener.Close()

	lines := `{"id":"a","name":"first"}` + "\n" + `{"id":"b","name":"second"}` + "\n"
	published, err := http.Post(listener.URL+"/feeds/things?key=/id", "application/x-ndjson", strings.NewReader(lines))
	if err != nil {
		log.Fatal(err)
	}
	defer published.Body.Close()
	fmt.Println(published.Status)

	newest, err := http.Head(listener.URL + "/feeds/things")
	if err != nil {
		log.Fatal(err)
	}
	defer newest.Body.Close()
	fmt.Println(newest.Header.Get("Link"))
	// Output:
	// 200 OK
	// <https://data.example.org/feeds/things/pages/1>; rel="self"
}
