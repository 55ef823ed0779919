package kintotest

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// User is the owner of the buckets that NewCollection creates, and Password is the user's password.
const (
	User     = "feedctl"
	Password = "secret"
)

// tries is how many times [Send] tries a request that conflicts with another one.
const tries = 10

// Send makes a request as [User] with a JSON body, and returns the body of the response. The request
// must succeed.
//
// On PostgreSQL, two objects that are created at the same time may get the same timestamp. In this case,
// Kinto stores one of them, and asks the client to send the other again, which Send does.
func Send(t testing.TB, method, url, body string) string {
	t.Helper()
	for try := 1; ; try++ {
		response, answer := Try(t, method, url, body) //nolint:bodyclose // Try closes it
		switch {
		case response.StatusCode/100 == 2:
			return answer
		case response.StatusCode != http.StatusConflict || !strings.Contains(answer, "please retry") || try == tries:
			t.Fatalf("%s %s: %s: %s", method, url, response.Status, answer)
		}
	}
}

// Try makes a request as [User] with a JSON body; header holds pairs of names and values. It returns the
// response, whose body has been read, and the body.
func Try(t testing.TB, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth(User, Password)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return response, string(answer)
}

// newCollection creates a bucket that everyone may write, with a collection.
func newCollection(t testing.TB, root string) string {
	t.Helper()
	bucket := root + "/buckets/b" + strconv.FormatInt(names.Add(1), 10)
	Send(t, http.MethodPut, bucket, `{"permissions":{"write":["system.Everyone"]}}`)
	Send(t, http.MethodPut, bucket+"/collections/c", "")
	return bucket + "/collections/c"
}
