package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/file"
)

// startupTime bounds how long a server may take until it answers.
const startupTime = 10 * time.Second

// A server is a process that answers HTTP requests.
type server struct {
	*process
	url string // without a slash at the end
}

// serveStore starts "feedctl serve" for the store in a directory.
func (b *bench) serveStore(dir string, flags ...string) (*server, error) {
	return b.serveAt("file:"+dir, flags...)
}

// serveAt starts "feedctl serve" for a store.
func (b *bench) serveAt(store string, flags ...string) (*server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p, err := b.start(nil, b.feedctl, append([]string{"serve", "--store", store, "--listen", address, "--log-level", "warn"}, flags...)...)
	if err != nil {
		return nil, err
	}
	return b.ready(&server{p, "http://" + address}, "/healthz")
}

// ready waits until the server answers at path.
func (b *bench) ready(s *server, path string) (*server, error) {
	deadline := time.Now().Add(startupTime)
	for {
		response, err := http.Get(s.url + path)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return s, nil
			}
			err = fmt.Errorf("status %d", response.StatusCode)
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("%s does not answer: %w", s.url, err), s.interrupt())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// freeAddress returns an unused loopback address.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// fill publishes the given number of entities into the feed "bench" of a new store and
// returns the store's directory and the number of pages.
func (b *bench) fill(name string, entities int) (dir string, pages int64, err error) {
	dir = filepath.Join(b.dir, name)
	store, err := file.New(dir)
	if err != nil {
		return "", 0, err
	}
	f, err := producer.Open(b.ctx, store, "bench", producer.Config{})
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	const batch = 2000
	for first := 0; first < entities; first += batch {
		list := make([]*feed.Entity, 0, batch)
		for i := first; i < min(first+batch, entities); i++ {
			list = append(list, newEntity(i))
		}
		receipt, err := f.Publish(b.ctx, list...)
		if err != nil {
			return "", 0, err
		}
		pages = receipt.Page
	}
	return dir, pages, nil
}
