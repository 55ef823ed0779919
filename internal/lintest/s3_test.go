package lintest_test

import (
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/s3"
)

// s3Handles opens handles of a new store on an S3 server, each over a separate network if
// weather is not nil.
func s3Handles(t *testing.T, n int, weather *s3fault.Weather) (handles []storage.Store) {
	t.Helper()
	u, err := url.Parse(s3test.Start(t).URL("lintest"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := s3.ParseURL(u)
	if err != nil {
		t.Fatal(err)
	}
	config.Backoff = time.Millisecond
	if weather != nil {
		config.Transport = func(next http.RoundTripper) http.RoundTripper { return s3fault.Wrap(next, weather.Decide) }
	}
	for range n {
		store, err := s3.Connect(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		handles = append(handles, store)
	}
	return handles
}

// s3Keep reports whether objects must not be deleted while they are being written:
// versitygw checks If-Match and then moves the new object into place, so an object deleted
// in between reappears. Feeds are not affected, since nothing that may still be written is deleted.
func s3Keep() bool { return os.Getenv(s3test.Variable) == "" }

// badWeather is the fraction of the requests to an S3 server in which a fault occurs.
const badWeather = 0.1

// TestObjectsS3 checks the contract of the S3 driver while the network and the server
// fail.
func TestObjectsS3(t *testing.T) {
	weather := s3fault.NewWeather(0)
	weather.Without(s3fault.SentTwice)
	handles := s3Handles(t, 3, weather)
	weather.Set(badWeather, 0)
	for _, seed := range seeds(t, 3) {
		load := objectLoad(seed)
		load.Keep = s3Keep()
		if err := load.Check(t.Context(), handles...); err != nil {
			t.Fatalf("-seed %d: %v", seed, err)
		}
	}
	t.Log(weather)
	if missing := weather.Missing(); len(missing) > 0 {
		t.Errorf("no request met the faults %q", missing)
	}
}

// TestFeedS3 checks feeds in a bucket while the network and the server fail.
func TestFeedS3(t *testing.T) {
	weather := s3fault.NewWeather(0)
	handles := s3Handles(t, 3, weather)
	weather.Set(badWeather, 0)
	for _, seed := range seeds(t, 1) {
		load, readers := feedLoad(t, seed, handles)
		load.Settle = func() { weather.Settle(t.Context()) }
		if err := load.Check(t.Context(), handles, readers); err != nil {
			t.Fatalf("-seed %d: %v", seed, err)
		}
	}
	t.Log(weather)
}
