// Package webserver runs an HTTP server and shuts it down gracefully.
package webserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/internal/tcp"
)

// shutdownTime is how long requests may take to end after a signal.
const shutdownTime = 15 * time.Second

// CheckAddress checks that an address has the form HOST:PORT, not whether a server can listen on
// it.
func CheckAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err
}

// A Server is an HTTP server or, with a TLSConfig, an HTTPS server.
type Server struct {
	*http.Server
	Drain func(context.Context) error // ends the requests that wait for something to happen
	Log   *slog.Logger
}

// Run listens on an address, calls ready with the URL at which this machine reaches the server, and
// serves until ctx ends. After that, requests may take 15 s to end.
func (s *Server) Run(ctx context.Context, address string, ready func(url string) error) error {
	listener, err := tcp.Listen(ctx, address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	url := s.url(listener.Addr().String())
	if err := ready(url); err != nil {
		return errors.Join(err, listener.Close())
	}
	failed := make(chan error, 1)
	go func() {
		if s.TLSConfig == nil {
			s.ConnContext = tcp.WithJoined
			failed <- s.Serve(tcp.Join(listener))
		} else {
			failed <- s.ServeTLS(listener, "", "")
		}
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", url, err)
	case <-ctx.Done():
	}
	s.Log.Info("shutting down", "cause", context.Cause(ctx))
	return s.shutDown(context.WithoutCancel(ctx))
}

func (s *Server) url(address string) string {
	scheme := "http://"
	if s.TLSConfig != nil {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return scheme + net.JoinHostPort("localhost", port)
	}
	return scheme + address
}

func (s *Server) shutDown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTime)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(ctx) }()
	err := errors.Join(s.Shutdown(ctx), <-drained)
	if errors.Is(err, context.DeadlineExceeded) {
		s.Log.Warn("requests were cut off", "after", shutdownTime)
		return s.Close()
	}
	return err
}
