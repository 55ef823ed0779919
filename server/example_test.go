package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
)

// A server is an http.Handler. Here it is asked without a network.
func Example() {
	store := memory.New()
	handler, err := server.New(store, server.Config{Writable: true, PublicURL: "https://data.example.org"})
	if err != nil {
		log.Fatal(err)
	}
	defer handler.Close(context.Background())
	client := http.Client{Transport: server.Transport(handler)}

	lines := `{"id":"a","name":"first"}` + "\n" + `{"id":"b","name":"second"}` + "\n"
	published, err := client.Post("http://store.example/feeds/things?key=/id", "application/x-ndjson", strings.NewReader(lines))
	if err != nil {
		log.Fatal(err)
	}
	defer published.Body.Close()
	fmt.Println(published.Status)

	newest, err := client.Head("http://store.example/feeds/things")
	if err != nil {
		log.Fatal(err)
	}
	defer newest.Body.Close()
	fmt.Println(newest.Header.Get("Link"))
	// Output:
	// 200 OK
	// <https://data.example.org/feeds/things/pages/1>; rel="self"
}
