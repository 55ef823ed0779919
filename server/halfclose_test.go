package server_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A waitingStore returns an object once the server believes that the client has disconnected,
// unless the request was cancelled.
type waitingStore struct {
	storage.Store
	gone chan struct{}
}

func (s waitingStore) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	<-s.gone
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, key, offset, length)
}

// TestHalfClosed closes the sending side of a connection after the request, as "nc -N" does.
func TestHalfClosed(t *testing.T) {
	store := waitingStore{memory.New(), make(chan struct{})}
	publishTo(t, store.Store, "f", 0, 8)
	s := newServer(t, store, server.Config{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { close(store.gone) })
		s.ServeHTTP(w, r)
	}))
	defer web.Close()
	conn, err := net.Dial("tcp", web.Listener.Addr().String())
	check(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "GET /feeds/f/pages/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	check(t, err)
	check(t, conn.(*net.TCPConn).CloseWrite())
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("page 1: %s", response.Status)
	}
}
