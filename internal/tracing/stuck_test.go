package tracing

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stuck never answers.
type stuck struct{}

func (stuck) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestStuckCollector: a collector that does not answer delays only the end of the process, and only for a short time.
func TestStuckCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		c := newClient("http://127.0.0.1/v1/traces", http.Header{}, slog.New(slog.NewTextHandler(&lines, nil)))
		c.http.Transport = stuck{}
		tracer, err := newTracer(t.Context(), c, "v1")
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for range 10_000 {
			_, end := tracer.Command(t.Context(), "work")
			end(nil)
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("recording waited %v", took)
		}
		if err := tracer.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > flushTime {
			t.Errorf("Close waited %v", took)
		}
		time.Sleep(time.Hour) // until the client gives up on what has not been sent
		if strings.Count(lines.String(), "\n") != 1 {
			t.Errorf("log: %s", &lines)
		}
	})
}
