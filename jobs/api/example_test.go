package api_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/api"
)

// A program creates a job.
func Example() {
	scheduler, err := jobs.Open(context.Background(), "sqlite::memory:", jobs.Kinds{"fake": fakeKind{}}, jobs.Defaults())
	if err != nil {
		log.Fatal(err)
	}
	defer scheduler.Close()
	handler, err := api.New(scheduler, api.Config{})
	if err != nil {
		log.Fatal(err)
	}
	site := httptest.NewServer(handler)
	defer site.Close()

	const job = `{"kind": "fake", "source": "https://feeds.example.org/orders", "follow": true}`
	request, err := http.NewRequest(http.MethodPut, site.URL+"/api/v1/namespaces/shop/jobs/orders", strings.NewReader(job))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("If-None-Match", "*") // only if there is none
	for range 2 {
		request.Body, _ = request.GetBody()
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		fmt.Println(response.Status)
	}
	// Output:
	// 201 Created
	// 412 Precondition Failed
}
