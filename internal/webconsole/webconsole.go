// Package webconsole runs the console of a command: the flag --console, and the listener behind it.
package webconsole

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/console"
	"github.com/feedctl/feedctl/doctor"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/access"
	"github.com/feedctl/feedctl/internal/actions"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/webserver"
	"github.com/feedctl/feedctl/readers"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/observe"
	"github.com/feedctl/feedctl/storage/stores"
)

// Flags holds the flags of a command with a console.
type Flags struct {
	Address string // HOST:PORT; "" for no console

	// Readers, if not nil, tracks the readers of the feeds. Their lag is sampled while the console runs.
	Readers *readers.Tracker

	requests console.Requests
}

// Var adds the flags to those of a command.
func (f *Flags) Var(flags *pflag.FlagSet) {
	flags.StringVar(&f.Address, "console", "", "serve the web console on this `ADDRESS`, such as 127.0.0.1:9090; port 0 picks a free port (default: no console)")
}

// Check checks the address, which other machines may be able to reach only if there are credentials.
func (f *Flags) Check(credentials int) error {
	if f.Address == "" {
		return nil
	}
	if err := webserver.CheckAddress(f.Address); err != nil {
		return exit.Usagef("--console %q is not HOST:PORT: %w", f.Address, err)
	}
	if local, err := access.OnlyLocal(f.Address); err != nil || local || credentials > 0 {
		return err
	}
	return exit.WithHint(exit.Usagef("listen on %q: the console would be open to everyone on the network: give credentials, or listen on a loopback address", f.Address),
		"--read-credentials-file FILE, or --console 127.0.0.1:9090")
}

// Watch returns a store whose requests the console counts, if there is a console.
func (f *Flags) Watch(store storage.Store) storage.Store {
	if f.Address == "" {
		return store
	}
	return observe.Wrap(store, f.requests.Observe)
}

// Start serves a console on the address until the command ends, and returns its URL; without an address
// it does nothing. It sets the Logger of the console and, if there is a store, its Feeds, Actions, Requests and
// Space. With secure, it serves HTTPS.
func (f *Flags) Start(ctx context.Context, a *app.App, c console.Config, secure *tls.Config) (url string, err error) {
	if f.Address == "" {
		return "", nil
	}
	c.Logger = a.Log
	if c.Store != nil {
		c.Feeds = feedstore.NewLocal(c.Store, a.Log)
		c.Actions = &actions.Feeds{Runner: actions.Runner{Log: a.Log, Transport: a.Transport, Store: a.Store, StoreName: c.StoreName}}
		f.sample(ctx, a, &c)
		c.Requests, c.Space = &f.requests, space(a.Store)
		a.AtEnd(func() error { c.Feeds.Close(context.WithoutCancel(ctx)); return nil }, "reader of the console")
	}
	handler, err := console.New(c)
	if err != nil {
		return "", err
	}
	web := webserver.Server{Server: server.NewHTTPServer(handler, a.Log), Drain: handler.Close, Log: a.Log}
	web.TLSConfig = secure.Clone()
	ctx, stop := context.WithCancelCause(ctx)
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- web.Run(ctx, f.Address, func(url string) error {
			ready <- url
			return nil
		})
	}()
	select {
	case url := <-ready:
		a.AtEnd(func() error { stop(errEnded); return <-ended }, "console")
		return url, nil
	case err := <-ended:
		stop(err)
		return "", fmt.Errorf("--console: %w", err)
	}
}

// sample makes the console show the readers, and samples their lag until the command ends.
func (f *Flags) sample(ctx context.Context, a *app.App, c *console.Config) {
	if f.Readers == nil {
		return
	}
	c.Readers = f.Readers
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Readers.Run(ctx, func(ctx context.Context, feed string) (*chain.Page, error) {
			_, newest, _, err := c.Feeds.Look(ctx, feed)
			return newest, err
		})
	}()
	a.AtEnd(func() error { stop(); <-done; return nil }, "readers")
}

// errEnded is the cause with which a console stops.
var errEnded = errors.New("the command ends")

// space returns a function that returns the free and total space of a store in a directory, or nil for other
// stores.
func space(store string) func() *console.Space {
	dir, ok := stores.Directory(store)
	if !ok {
		return nil
	}
	return func() *console.Space {
		free, all, err := doctor.Space(dir)
		if err != nil {
			return nil
		}
		return &console.Space{Free: free, Total: all}
	}
}
