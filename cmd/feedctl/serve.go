package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/accesslog"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/regular"
	"github.com/feedctl/feedctl/internal/tcp"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/pagecache"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/sink"
)

// shutdownTime is how long requests may take to end after a signal.
const shutdownTime = 15 * time.Second

type serveFlags struct {
	listen          string
	publicURL       string
	readFile        string
	writeFile       string
	tlsCert, tlsKey string
	writable        bool
	anonymousWrites bool
	readyFile       string
	pollInterval    time.Duration
	cache           string
	cacheSize       int64
	noListing       bool
	accessLog       string
}

// defaultCacheSize is room for about a thousand pages, in bytes.
const defaultCacheSize = 1 << 30

func newServe(a *app) *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the feeds and snapshots in the store over HTTP",
		Long: `Serve answers HTTP requests for the feeds and snapshots of the store, or HTTPS requests with
--tls-cert and --tls-key. With --writable it accepts entities. It prints the URL it listens
on.

  /                        a directory of feeds and snapshots, unless --no-listing is given
  /feeds/FEED              the newest page of a feed, where consumers begin; POST publishes
  /snapshots/NAME          the index of the newest snapshot
  /healthz /readyz         for the supervisor of the process
  /metrics                 for Prometheus

Credentials for reading and writing are lines "basic USER:PASSWORD" or "bearer TOKEN" in a
file, or in the variables FEEDCTL_READ_CREDENTIALS and FEEDCTL_WRITE_CREDENTIALS. Without
them, access is open to everyone. A writable server without write credentials listens only
on a loopback address, unless --insecure-allow-anonymous-writes is given.

From a remote store, serve reads ahead of its clients, with up to 32 MiB of memory. With
--cache it also keeps pages that can no longer change on a local disk, up to --cache-size.
The directory belongs to one process and may be removed when the process has ended. A cache
is of no use behind a CDN, or with a store on a local disk. While a client waits for new
entities of a feed, a remote store is polled every --poll-interval, with one request for
each feed: this is the longest delay, and it determines the cost.

After SIGTERM or Ctrl-C the server accepts no more requests, ends those that wait for new
entities, finishes the others, and exits with status 0.` + exit.Help(exit.NotFound),
		Example: `  feedctl serve --listen 127.0.0.1:8080
  feedctl serve --listen :8443 --tls-cert cert.pem --tls-key key.pem --public-url https://data.example.org:8443
  feedctl serve --store 's3://bucket/prefix?region=eu-central-1' --cache /var/cache/feedctl --cache-size 20GiB
  feedctl serve --writable --write-credentials-file writers.txt --listen 127.0.0.1:0 --ready-file url.txt`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.cache == "" && c.Flags().Changed("cache-size") {
				return exit.Usagef("--cache-size is for --cache, without which there is no cache on disk")
			}
			return runServe(c.Context(), a, &f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080", "`ADDRESS` to listen on; port 0 takes a free one")
	flags.StringVar(&f.publicURL, "public-url", "", "`URL` under which clients reach the server (default: from the request's Host)")
	flags.StringVar(&f.readFile, "read-credentials-file", "", "`FILE` with the credentials of readers")
	flags.StringVar(&f.writeFile, "write-credentials-file", "", "`FILE` with the credentials of writers")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "`FILE` with the certificate chain, in PEM")
	flags.StringVar(&f.tlsKey, "tls-key", "", "`FILE` with the private key, in PEM")
	flags.BoolVar(&f.writable, "writable", false, "accept entities by POST")
	flags.BoolVar(&f.anonymousWrites, "insecure-allow-anonymous-writes", false, "allow writing by anyone who can reach the address")
	flags.StringVar(&f.readyFile, "ready-file", "", "write the URL into `FILE` when the server is ready")
	units.DurationVar(flags, &f.pollInterval, "poll-interval", time.Second, "`TIME` between polls of a remote store while clients wait for new entities")
	flags.StringVar(&f.cache, "cache", "", "keep pages in `DIR`")
	units.SizeVar(flags, &f.cacheSize, "cache-size", defaultCacheSize, "with --cache: keep at most this many `BYTES`")
	flags.BoolVar(&f.noListing, "no-listing", false, "do not list the feeds and snapshots at /")
	flags.StringVar(&f.accessLog, "access-log", "", "append a line for each request to `FILE`, or - for stdout, in combined log format, without queries")
	c.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	return c
}

func runServe(ctx context.Context, a *app, f *serveFlags) (err error) {
	config, err := f.config(a)
	if err != nil {
		return err
	}
	secure, err := f.tlsConfig()
	if err != nil {
		return err
	}
	store, err := a.openStoreAt(ctx, a.store, access{follow: true})
	if err != nil {
		return err
	}
	if f.cache != "" {
		if config.Cache, err = pagecache.Open(pagecache.Config{Dir: f.cache, Size: f.cacheSize, Logger: a.log}); err != nil {
			return err
		}
		a.atEnd(config.Cache.Close, "cache")
	}
	handler, err := server.New(store, config)
	if err != nil {
		return err
	}
	logged, closeLog, err := accesslog.Open(f.accessLog, handler, a.out, a.log)
	if err != nil {
		return err
	}
	a.atEnd(closeLog, "access log")
	listener, err := tcp.Listen(ctx, f.listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", f.listen, err)
	}
	web := server.NewHTTPServer(logged, a.log)
	web.TLSConfig = secure
	url := f.url(listener.Addr())
	if err := a.announce(f, url); err != nil {
		return errors.Join(err, listener.Close())
	}
	failed := make(chan error, 1)
	go func() { failed <- serve(web, listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", url, err)
	case <-ctx.Done():
	}
	a.log.Info("shutting down", "cause", context.Cause(ctx))
	return a.shutDown(context.WithoutCancel(ctx), handler, web)
}

// config checks the flags and returns the settings of the server.
func (f *serveFlags) config(a *app) (server.Config, error) {
	if f.publicURL != "" {
		if _, err := locate.ParseURL(f.publicURL); err != nil {
			return server.Config{}, err
		}
	}
	read, err := serverCredentials(f.readFile, "FEEDCTL_READ_CREDENTIALS")
	if err != nil {
		return server.Config{}, err
	}
	write, err := serverCredentials(f.writeFile, "FEEDCTL_WRITE_CREDENTIALS")
	if err != nil {
		return server.Config{}, err
	}
	switch {
	case f.cache != "" && f.cacheSize < pagecache.MinSize:
		return server.Config{}, exit.Usagef("--cache-size %d is less than %d bytes", f.cacheSize, pagecache.MinSize)
	case f.pollInterval <= 0:
		return server.Config{}, exit.Usagef("--poll-interval %v must be positive", f.pollInterval)
	}
	config := server.Config{
		PublicURL:    f.publicURL,
		ReadAuth:     read,
		WriteAuth:    write,
		Writable:     f.writable,
		OpenWrites:   f.anonymousWrites,
		PollInterval: f.pollInterval,
		NoListing:    f.noListing,
		Operations:   true,
		Logger:       a.log,
	}
	if err := checkAddress(f.listen); err != nil {
		return server.Config{}, exit.Usagef("--listen %q is not HOST:PORT: %w", f.listen, err)
	}
	if err := server.CheckExposure(f.listen, config); err != nil {
		return server.Config{}, exit.WithHint(exit.Usagef("%w", err), "--write-credentials-file FILE, or --insecure-allow-anonymous-writes")
	}
	return config, nil
}

// checkAddress checks how an address is written. Whether it can be listened on is
// another question.
func checkAddress(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err
}

func serverCredentials(file, variable string) ([]server.Credential, error) {
	list, err := credential.ReadAll(file, variable)
	if err != nil {
		return nil, err
	}
	credentials := make([]server.Credential, len(list))
	for i, c := range list {
		credentials[i] = server.Credential(c)
	}
	return credentials, nil
}

// url returns where this machine reaches the server.
func (f *serveFlags) url(addr net.Addr) string {
	scheme := "http"
	if f.tlsCert != "" {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return scheme + "://" + net.JoinHostPort("localhost", port)
	}
	return scheme + "://" + addr.String()
}

// announce tells where the server listens.
func (a *app) announce(f *serveFlags, url string) error {
	err := a.printf(serveJSON{URL: url}, "serving %s on %s\n", sink.Redact(a.store), url)
	if err != nil || f.readyFile == "" {
		return err
	}
	return regular.WriteFile(f.readyFile, []byte(url+"\n"))
}

// tlsConfig reads the certificate; nil without one.
func (f *serveFlags) tlsConfig() (*tls.Config, error) {
	if f.tlsCert == "" {
		return nil, nil
	}
	certificate, err := tls.LoadX509KeyPair(f.tlsCert, f.tlsKey)
	if err != nil {
		return nil, fmt.Errorf("read certificate %s and key %s: %w", f.tlsCert, f.tlsKey, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}, nil
}

func serve(web *http.Server, listener net.Listener) error {
	if web.TLSConfig == nil {
		return web.Serve(listener)
	}
	return web.ServeTLS(listener, "", "")
}

// shutDown ends the requests that wait for news, and lets the others finish as
// long as that does not take too long.
func (a *app) shutDown(ctx context.Context, handler *server.Server, web *http.Server) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTime)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- handler.Close(ctx) }()
	err := errors.Join(web.Shutdown(ctx), <-closed)
	if errors.Is(err, context.DeadlineExceeded) {
		a.log.Warn("requests were cut off", "after", shutdownTime)
		return web.Close()
	}
	return err
}
