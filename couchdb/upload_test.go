package couchdb_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/couchdb"
)

// slowly is a transport that reads one byte of the request body every 50 seconds, and then responds
// after a pause.
type slowly struct{ pause time.Duration }

func (s slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	wait := func(d time.Duration) error {
		select {
		case <-r.Context().Done():
			return r.Context().Err()
		case <-time.After(d):
			return nil
		}
	}
	for b := make([]byte, 1); ; {
		if err := wait(50 * time.Second); err != nil {
			return nil, err
		}
		if _, err := r.Body.Read(b); err == io.EOF {
			break
		}
	}
	if err := wait(s.pause); err != nil {
		return nil, err
	}
	_, _ = r.Body.Read(make([]byte, 1)) // a transport may read again after the end
	return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{}, Body: slowAnswer{}, Request: r}, nil
}

// A slowAnswer is a response body that takes 50 seconds to read.
type slowAnswer struct{}

func (slowAnswer) Read(b []byte) (int, error) {
	time.Sleep(50 * time.Second)
	return copy(b, `{"rev":"1-aa"}`), io.EOF
}

func (slowAnswer) Close() error { return nil }

// TestSlowUpload: sending a large document may take longer than HeaderTimeout, which limits only
// the time until the response begins.
func TestSlowUpload(t *testing.T) {
	for pause, fine := range map[time.Duration]bool{50 * time.Second: true, 61 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			db, err := couchdb.Open(couchdb.Config{URL: "http://couch.example.com/db", Attempts: 1, HTTP: &http.Client{Transport: slowly{pause}}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = db.Put(t.Context(), couchdb.Put{
				ID:     "a",
				Open:   func() (io.Reader, error) { return strings.NewReader("123456"), nil },
				Length: 6,
			})
			if (err == nil) != fine {
				t.Errorf("answer after %v: %v", pause, err)
			}
		})
	}
}
