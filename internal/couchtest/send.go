package couchtest

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Send makes a request with a JSON body, and returns the body of the response. The request must
// succeed: a PUT with 201 or, in an incomplete cluster, 202.
func Send(t testing.TB, method, url, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode/100 != 2 || method == http.MethodPut && response.StatusCode == http.StatusOK {
		t.Fatalf("%s %s: %s: %s, %v", method, url, response.Status, answer, err)
	}
	return string(answer)
}
