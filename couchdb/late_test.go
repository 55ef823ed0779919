package couchdb_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/memnet"
)

// TestLate: a request whose response is late is logged.
func TestLate(t *testing.T) {
	for pause, said := range map[time.Duration]int{9 * time.Second: 0, 30 * time.Second: 1} {
		inWorld(t, func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(pause):
				_, _ = io.WriteString(w, info)
			case <-r.Context().Done():
			}
		}, func(t *testing.T, n *memnet.Net) {
			var log bytes.Buffer
			db := open(t, n, couchdb.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
			if _, err := db.Info(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // for the log
			if strings.Count(log.String(), `request="GET http://couch.test/db"`) != said {
				t.Errorf("after %v the log is %s", pause, &log)
			}
		})
	}
}

// TestHedge: a GET whose response is late is repeated on another connection. The first response is
// used, and the other request is cancelled. Requests with other methods are not hedged, nor are
// those for _changes, whose response may not begin for a long time.
func TestHedge(t *testing.T) {
	const never = 24 * time.Hour
	for name, test := range map[string]struct {
		q             couchdb.Request
		first, second time.Duration // until the answer begins
		requests      int
		took          time.Duration
		answer        string // "": a time-out
	}{
		"in time":        {couchdb.Request{Once: true}, 9 * time.Second, 0, 1, 9 * time.Second, "first"},
		"second answers": {couchdb.Request{Once: true}, never, 5 * time.Second, 2, 15 * time.Second, "second"},
		"first answers":  {couchdb.Request{Once: true}, 15 * time.Second, never, 2, 15 * time.Second, "first"},
		"none answers":   {couchdb.Request{Once: true}, never, never, 2, time.Minute, ""},
		"head":           {couchdb.Request{Method: "HEAD", Once: true}, never, 0, 1, time.Minute, ""},
		"post":           {couchdb.Request{Method: "POST", Path: "_bulk_docs", Once: true}, never, 0, 1, time.Minute, ""},
		"changes":        {couchdb.Request{Path: "_changes", Once: true}, 50 * time.Second, 0, 1, 50 * time.Second, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			var requests, cancelled atomic.Int32
			inWorld(t, func(w http.ResponseWriter, r *http.Request) {
				pause, answer := test.first, "first"
				if requests.Add(1) > 1 {
					pause, answer = test.second, "second"
				}
				select {
				case <-time.After(pause):
					_, _ = io.WriteString(w, answer)
				case <-r.Context().Done():
					cancelled.Add(1)
				}
			}, func(t *testing.T, n *memnet.Net) {
				begun, answer := time.Now(), ""
				resp, err := open(t, n, couchdb.Config{}).Do(t.Context(), test.q)
				if err == nil {
					data, readErr := io.ReadAll(resp.Body)
					must(t, readErr)
					resp.Body.Close()
					answer = string(data)
				}
				if took := time.Since(begun); answer != test.answer || took != test.took {
					t.Errorf("answer %q after %v, %v", answer, took, err)
				}
				synctest.Wait()
				want := int32(test.requests)
				if answer != "" {
					want-- // all requests but the one whose response was used
				}
				if cancelled.Load() != want || len(n.Requests()) != test.requests || n.Dials() != test.requests {
					t.Errorf("%d requests, %d cancelled, on %d connections", requests.Load(), cancelled.Load(), n.Dials())
				}
			})
		})
	}
}

// TestTLSPort: a request is not retried if the server responds with a TLS alert.
func TestTLSPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	asked := make(chan int)
	go func() {
		n := 0
		for {
			conn, err := listener.Accept()
			if err != nil {
				asked <- n
				return
			}
			n++
			_, _ = conn.Read(make([]byte, 4096)) // read the request, since unread bytes would reset the connection
			_, _ = conn.Write([]byte("\x15\x03\x03\x00\x02\x02\x46"))
			conn.Close()
		}
	}()
	db, err := couchdb.Open(couchdb.Config{URL: "http://" + listener.Addr().String() + "/db"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Info(t.Context())
	listener.Close()
	if n := <-asked; err == nil || !strings.Contains(err.Error(), "write https://") || !couchdb.Permanent(err) || n != 1 {
		t.Errorf("%v, after %d connections", err, n)
	}
}
