package verify_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/feedctl/feedctl/verify"
)

// The page has one entity, which lacks two headers.
func ExampleFeed() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", `multipart/mixed; boundary="b"`)
		w.Header().Set("Last-Modified", "Mon, 27 Nov 2023 03:10:00 GMT")
		w.Header().Set("Link", "</feeds/zones>; rel=self")
		_, _ = io.WriteString(w, "--b\r\n"+
			"Last-Modified: Mon, 27 Nov 2023 03:10:00 GMT\r\n"+
			"Content-Type: text/plain\r\n"+
			"\r\n"+
			"hello\r\n"+
			"--b--\r\n")
	}))
	defer server.Close()

	report, err := verify.Feed(context.Background(), server.URL+"/feeds/zones", verify.Config{})
	if err != nil {
		log.Fatal(err) // the feed could not be checked
	}
	for _, v := range report.Violations {
		fmt.Printf("page %d, part %d: %s: %s\n", v.Page, v.Part, v.Rule, v.Message)
	}
	// Output:
	// page 1, part 0: entity-header: it has no Operation-Type
	// page 1, part 0: entity-header: it has no Content-ID
}
