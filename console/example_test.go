package console_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/feedctl/feedctl/console"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/storage/memory"
)

// A console is an http.Handler.
func Example() {
	store := memory.New()
	feeds := feedstore.NewLocal(store, nil)
	defer feeds.Close(context.Background())
	handler, err := console.New(console.Config{Store: store, Feeds: feeds, StoreName: "memory:"})
	if err != nil {
		log.Fatal(err)
	}
	defer handler.Close(context.Background())

	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}
