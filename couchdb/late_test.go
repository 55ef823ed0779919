package couchdb_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/memnet"
)

// TestLate: a request whose answer is late is named in the log while it is waited for.
func TestLate(t *testing.T) {
	for pause, said := range map[time.Duration]int{9 * time.Second: 0, 30 * time.Second: 1} {
		inWorld(t, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(pause)
			_, _ = io.WriteString(w, info)
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

// TestTLSPort: a server that answers with an alert of TLS is not asked again.
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
			_, _ = conn.Read(make([]byte, 4096)) // the request: what is not read resets the connection
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
