package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/console"
	"github.com/feedctl/feedctl/internal/accesslog"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/regular"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/internal/tracing"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/internal/webconsole"
	"github.com/feedctl/feedctl/internal/webserver"
	"github.com/feedctl/feedctl/pagecache"
	"github.com/feedctl/feedctl/readers"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/sink"
)

type serveFlags struct {
	server.Config
	listen          string
	readFile        string
	writeFile       string
	tlsCert, tlsKey string
	readyFile       string
	cache           pagecache.Config
	accessLog       string
	console         webconsole.Flags
	maintain        bool
	tables          string
}

func newServe(a *app.App) *cobra.Command {
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
  /changes                 the names of feeds that have changed since a token
  /healthz /readyz         for the supervisor of the process
  /metrics                 for Prometheus

Credentials for reading and writing are lines "basic USER:PASSWORD" or "bearer TOKEN" in a
file, or in the variables FEEDCTL_READ_CREDENTIALS and FEEDCTL_WRITE_CREDENTIALS. Without
them, access is open to everyone. A writable server without write credentials listens only
on a loopback address, unless --insecure-allow-anonymous-writes is given.

From a remote store, serve reads ahead of its clients, with up to 32 MiB of memory. With
--cache it also keeps pages that can no longer change on a local disk. The directory belongs
to one process and may be removed when the process has ended. While a client waits for new
entities of a feed, a remote store is polled every --poll-interval, with one request for
each feed: this interval is the longest delay, and it determines the cost.

With --console, serve also serves web pages for people, at a separate address: how fresh
each feed is, its entities and snapshots, and who reads it. If there are credentials, the
console requires them for reading, and write credentials for actions. Without credentials,
it listens only on a loopback address.

With --maintain, serve also carries out the retention policies of all feeds (see "feedctl
retain"), one after another, at the start and about once an hour. Several servers of a store
may do so.

After SIGTERM or Ctrl-C the server accepts no more requests, ends those that wait for new
entities, finishes the others, and exits with status 0.` + exit.Help(exit.NotFound),
		Example: `  feedctl serve --listen 127.0.0.1:8080
  feedctl serve --listen :8443 --tls-cert cert.pem --tls-key key.pem --public-url https://data.example.org:8443
  feedctl serve --store 's3://bucket/prefix?region=eu-central-1' --cache /var/cache/feedctl --cache-size 20GiB
  feedctl serve --listen 127.0.0.1:8080 --console 127.0.0.1:9090
  feedctl serve --writable --write-credentials-file writers.txt --listen 127.0.0.1:0 --ready-file url.txt`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.cache.Dir == "" && c.Flags().Changed("cache-size") {
				return exit.Usagef("--cache-size requires --cache: without it there is no cache on disk")
			}
			if f.tables != "" && !f.maintain {
				return exit.Usagef("--tables requires --maintain: without it no snapshots are made")
			}
			return runServe(c.Context(), a, &f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080", "`ADDRESS` to listen on; port 0 picks a free port")
	flags.StringVar(&f.PublicURL, "public-url", "", "`URL` at which clients reach the server (default: from the request's Host)")
	flags.StringVar(&f.readFile, "read-credentials-file", "", "`FILE` with the credentials of readers")
	flags.StringVar(&f.writeFile, "write-credentials-file", "", "`FILE` with the credentials of writers")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "`FILE` with the certificate chain, in PEM")
	flags.StringVar(&f.tlsKey, "tls-key", "", "`FILE` with the private key, in PEM")
	flags.BoolVar(&f.Writable, "writable", false, "accept entities by POST")
	flags.BoolVar(&f.OpenWrites, "insecure-allow-anonymous-writes", false, "allow writing by anyone who can reach the address")
	flags.StringVar(&f.readyFile, "ready-file", "", "write the URL into `FILE` when the server is ready")
	units.DurationVar(flags, &f.PollInterval, "poll-interval", time.Second, "`TIME` between polls of a remote store while clients wait for new entities")
	flags.StringVar(&f.cache.Dir, "cache", "", "keep pages in `DIR`")
	units.SizeVar(flags, &f.cache.Size, "cache-size", 1<<30, "with --cache: keep at most this many `BYTES`")
	flags.BoolVar(&f.NoListing, "no-listing", false, "do not list the feeds and snapshots at /")
	flags.StringVar(&f.accessLog, "access-log", "", "append a line for each request to `FILE`, or - for stdout, in combined log format, without queries")
	flags.BoolVar(&f.maintain, "maintain", false, "carry out the retention policies of the feeds")
	f.console.Var(flags)
	task.TablesVar(flags, &f.tables)
	c.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	return c
}

func runServe(ctx context.Context, a *app.App, f *serveFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	secure, err := f.tlsConfig()
	if err != nil {
		return err
	}
	store, err := a.OpenStore(ctx, a.Store, task.Access{Follow: true})
	if err != nil {
		return err
	}
	f.Operations, f.Logger, f.cache.Logger = true, a.Log, a.Log
	if f.cache.Dir != "" {
		if f.Cache, err = pagecache.Open(f.cache); err != nil {
			return err
		}
		a.AtEnd(f.Cache.Close, "cache")
	}
	f.Registry = a.Registry()
	if secure != nil {
		f.Registry.MustRegister(metrics.Certificate(secure.Certificates[0].Leaf.NotAfter))
	}
	if f.maintain {
		if err := f.startMaintenance(ctx, a, store); err != nil {
			return err
		}
	}
	tracer := tracing.FromContext(ctx)
	f.Producer.Observe = tracer.Writes()
	store = f.console.Watch(store)
	f.console.Readers = readers.New(readers.Config{Users: len(f.ReadAuth) > 0, Logger: a.Log})
	f.Registry.MustRegister(metrics.Readers(f.console.Readers))
	handler, err := server.New(store, f.Config)
	if err != nil {
		return err
	}
	logged, closeLog, err := accesslog.Open(f.accessLog, tracer.Handler(f.console.Readers.Handler(handler)), a.Out, a.Log)
	if err != nil {
		return err
	}
	a.AtEnd(closeLog, "access log")
	web := webserver.Server{Server: server.NewHTTPServer(logged, a.Log), Drain: handler.Close, Log: a.Log}
	web.TLSConfig = secure
	return web.Run(ctx, f.listen, func(url string) error {
		shown := console.Config{
			Store: store, StoreName: sink.Redact(a.Store), FeedsURL: cmp.Or(f.PublicURL, url), ReadAuth: console.Credentials(f.ReadAuth), WriteAuth: console.Credentials(f.WriteAuth),
		}
		consoleURL, err := f.console.Start(ctx, a, shown, secure)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("serving %s on %s\n", sink.Redact(a.Store), url)
		if consoleURL != "" {
			text += "console on " + consoleURL + "\n"
		}
		err = a.Printf(serveJSON{URL: url, Console: consoleURL}, "%s", text)
		if err != nil || f.readyFile == "" {
			return err
		}
		return regular.WriteFile(f.readyFile, []byte(url+"\n"))
	})
}

// check checks the flags, and reads the credentials.
func (f *serveFlags) check() (err error) {
	if f.PublicURL != "" {
		if _, err := locate.ParseURL(f.PublicURL); err != nil {
			return err
		}
	}
	if f.ReadAuth, err = serverCredentials(f.readFile, "FEEDCTL_READ_CREDENTIALS"); err != nil {
		return err
	}
	if f.WriteAuth, err = serverCredentials(f.writeFile, "FEEDCTL_WRITE_CREDENTIALS"); err != nil {
		return err
	}
	switch {
	case f.cache.Dir != "" && f.cache.Size < pagecache.MinSize:
		return exit.Usagef("--cache-size %d is less than %d bytes", f.cache.Size, pagecache.MinSize)
	case f.PollInterval <= 0:
		return exit.Usagef("invalid --poll-interval %v: must be positive", f.PollInterval)
	}
	if err := webserver.CheckAddress(f.listen); err != nil {
		return exit.Usagef("--listen %q is not HOST:PORT: %w", f.listen, err)
	}
	if err := f.console.Check(len(f.ReadAuth) + len(f.WriteAuth)); err != nil {
		return err
	}
	if err := server.CheckExposure(f.listen, f.Config); err != nil {
		return exit.WithHint(exit.Usagef("%w", err), "--write-credentials-file FILE, or --insecure-allow-anonymous-writes")
	}
	return nil
}

func serverCredentials(file, variable string) (credentials []server.Credential, err error) {
	list, err := (credential.Source{File: file, Variable: variable}).ReadAll()
	for _, c := range list {
		credentials = append(credentials, server.Credential(c))
	}
	return credentials, err
}

// tlsConfig reads the certificate. It returns nil if there is none.
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
