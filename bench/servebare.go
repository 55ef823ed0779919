package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// A bareHandler serves the files that nginx has, with net/http and as little around it as possible. It
// shows how fast a Go program is without the work of feedctl. Files of at most 64 KiB are in memory.
type bareHandler struct {
	root  string
	small sync.Map // from a path to its bytes
}

// startBare runs a bareHandler in this process, which does nothing else while a server is under load.
func startBare(root string) (s *server, stop func() error, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	web := &http.Server{Handler: &bareHandler{root: filepath.Join(root, "html")}, ReadHeaderTimeout: time.Minute}
	go func() { _ = web.Serve(listener) }()
	return &server{url: "http://" + listener.Addr().String()}, web.Close, nil
}

func (h *bareHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if r.Header.Get("Accept-Encoding") == "gzip" {
		path += ".gz"
	}
	if body, ok := h.small.Load(path); ok {
		send(w, body.([]byte))
		return
	}
	f, err := os.Open(filepath.Join(h.root, path))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() <= 64<<10 {
		if body, err := os.ReadFile(f.Name()); err == nil {
			h.small.Store(path, body)
			send(w, body)
			return
		}
	}
	w.Header().Set("Content-Type", "multipart/mixed")
	http.ServeContent(w, r, "", time.Time{}, f)
}

func send(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "multipart/mixed")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // wrk counts what it received
}
