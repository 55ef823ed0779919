package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/internal/access"
	"github.com/feedctl/feedctl/pagecache"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// Config holds the settings of a server. The zero value of each is its default.
type Config struct {
	// PublicURL is the URL of the server's root as clients see it:
	// "https://example.org" or "https://example.org/data". Links begin with it.
	// Without it they begin with the request's Host and the prefix at which the server
	// is mounted (see [Server.ServeHTTP]), and shared caches may not keep pages. Set it
	// behind a proxy that changes the path; X-Forwarded-* is never used. A server on a loopback
	// address accepts the host of PublicURL as Host.
	PublicURL string
	// Writable allows publishing by POST.
	Writable bool
	// ReadAuth and WriteAuth are the credentials that allow reading and
	// publishing; with an empty list no credentials are required. Read and write
	// credentials are separate: one that allows both is in both lists.
	ReadAuth, WriteAuth []Credential
	// OpenWrites confirms that other machines may publish without credentials;
	// see [CheckExposure].
	OpenWrites bool

	// NoListing disables the directory of feeds and snapshots at "/". The metrics still contain
	// the names of feeds.
	NoListing bool

	// Operations adds /healthz, /readyz and /metrics, for a process that is nothing but a server.
	// In other processes, export the metrics of Registry.
	Operations bool
	// Checks holds named checks of things without which the server works less well: /readyz tells every
	// client which of the checks fail, with the error. Together they may take a few seconds.
	Checks map[string]func(context.Context) error

	// Producer configures the feeds that are published to. Its MaxEntity is
	// set to that of the server.
	Producer producer.Config
	// MaxBody is the largest body of a request, in bytes. Defaults to 16 GiB.
	MaxBody int64
	// MaxEntity is the largest body of an entity, in bytes. Defaults to 4 GiB.
	MaxEntity int64
	// MaxPublishes is how many requests may publish at once; further requests are answered with 503 and
	// Retry-After. Defaults to 512.
	MaxPublishes int
	// MaxProducers is how many feeds are kept open for publishing. Defaults to 64.
	// More are open only while more are being published to.
	MaxProducers int

	// MaxWait is the longest time for which "Prefer: wait" is granted. Defaults
	// to 1 minute.
	MaxWait time.Duration
	// MaxWaiters is how many requests may wait at the same time; further requests are answered immediately.
	// Defaults to 10,000.
	MaxWaiters int
	// PollInterval is how often the store is polled for changes by other processes,
	// for each feed that requests wait for. After a change, an interval of more than
	// a second is shortened to a second and grows back. A store that reports changes is polled a
	// tenth as often. Defaults to 1 second.
	PollInterval time.Duration

	// ReadAhead limits the memory for pages read from the store, in bytes: pages that a reader will request
	// next, and pages that several readers request. A page larger than a quarter of the limit is not kept. 0
	// means 32 MiB if the store is remote ([storage.Properties]) or there is a Cache, and otherwise none,
	// since a local disk is as fast; -1 means none.
	ReadAhead int64
	// Cache keeps pages on disk. The caller closes it. Without a cache each read of
	// a page may read the store.
	Cache *pagecache.Cache

	// Timeout is how long a client may take for each piece of a body: 1 KiB
	// sent to the server, 512 KiB received from it. Defaults to 30 seconds.
	Timeout time.Duration
	// MaxCoded is how many responses are compressed at once, each with up to 2 MiB of memory; further ones
	// are sent uncompressed. Defaults to 8.
	MaxCoded int
	// MaxEncoded limits the memory for compressed pages that never change, in bytes: each of them is
	// compressed once and sent to any number of clients. A page larger than a quarter of the limit is
	// compressed for each response. Defaults to 12 MiB; -1 means none.
	MaxEncoded int64

	// Logger logs errors, and requests at level Debug. Defaults to discarding them.
	Logger *slog.Logger
	// Registry receives the server's metrics. Defaults to a new one that also has
	// those of the Go runtime and the process.
	Registry *prometheus.Registry
}

// defaultReadAhead is enough for one reader with 24 pages of 1 MiB in flight, or two with 16.
const defaultReadAhead = 32 << 20

func (c Config) withDefaults(store storage.Store) Config {
	c.MaxBody = cmp.Or(c.MaxBody, 16<<30)
	c.MaxEntity = cmp.Or(c.MaxEntity, 4<<30)
	c.MaxPublishes = cmp.Or(c.MaxPublishes, 512)
	c.MaxProducers = cmp.Or(c.MaxProducers, 64)
	c.MaxWait = cmp.Or(c.MaxWait, time.Minute)
	c.MaxWaiters = cmp.Or(c.MaxWaiters, 10_000)
	c.PollInterval = cmp.Or(c.PollInterval, time.Second)
	if storage.PropertiesOf(store).Remote || c.Cache != nil {
		c.ReadAhead = cmp.Or(c.ReadAhead, defaultReadAhead)
	}
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.MaxCoded = cmp.Or(c.MaxCoded, 8)
	c.MaxEncoded = cmp.Or(c.MaxEncoded, 12<<20)
	c.Producer.MaxEntity = c.MaxEntity
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Producer.Logger == nil {
		c.Producer.Logger = c.Logger
	}
	return c
}

func (c Config) validate() error {
	for _, limit := range []struct {
		name  string
		value int64
	}{
		{"MaxBody", c.MaxBody}, {"MaxEntity", c.MaxEntity}, {"MaxPublishes", int64(c.MaxPublishes)},
		{"MaxProducers", int64(c.MaxProducers)}, {"MaxWait", int64(c.MaxWait)}, {"MaxWaiters", int64(c.MaxWaiters)},
		{"PollInterval", int64(c.PollInterval)}, {"ReadAhead", c.ReadAhead + 1}, {"Timeout", int64(c.Timeout)}, {"MaxCoded", int64(c.MaxCoded)},
		{"MaxEncoded", c.MaxEncoded + 1},
	} {
		if limit.value < 0 {
			return fmt.Errorf("configure server: %s is %d, must be positive", limit.name, limit.value)
		}
	}
	return nil
}

// publicURL returns PublicURL without a trailing slash, or "" if it is not set.
func (c Config) publicURL() (string, error) {
	if c.PublicURL == "" {
		return "", nil
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil {
		return "", fmt.Errorf("configure server: parse public URL: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("configure server: public URL %q must be http(s)://host[/path]", u.Redacted())
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// ErrExposed is matched by the error of [CheckExposure].
var ErrExposed = errors.New("publishing would be open to everyone")

// CheckExposure reports whether a server with this configuration may listen on the TCP address ("host:port",
// as for [net.Listen]). The error matches [ErrExposed] if other machines could publish without credentials.
// It does not resolve names: "localhost" is the only name that stands for this machine.
func CheckExposure(addr string, c Config) error {
	if !c.Writable || len(c.WriteAuth) > 0 || c.OpenWrites {
		return nil
	}
	if local, err := access.OnlyLocal(addr); err != nil || local {
		return err
	}
	return fmt.Errorf("listen on %q: %w on the network: give write credentials, listen on a loopback address, or confirm that this is intended", addr, ErrExposed)
}
