package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/stores"
)

// clientFlags are those of all commands that read from a server.
type clientFlags struct {
	credentialsFile string
	headers         []string
	allowOrigins    []string
	retries         int
}

func (f *clientFlags) add(flags *pflag.FlagSet) {
	f.addHeaders(flags)
	f.addOrigins(flags)
	flags.IntVar(&f.retries, "retries", 0, "give up after a request failed this `NUMBER` of times in a row; negative: never (default 8, or never with --follow)")
}

// addHeaders adds the flags for what goes with each request.
func (f *clientFlags) addHeaders(flags *pflag.FlagSet) {
	flags.StringVar(&f.credentialsFile, "credentials-file", "", "`FILE` with the credential for the server (default: the variable FEEDCTL_CREDENTIALS)")
	flags.StringArrayVar(&f.headers, "header", nil, "`NAME: VALUE` to send with each request; may be repeated")
}

// addOrigins adds the flag for where links may lead.
func (f *clientFlags) addOrigins(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.allowOrigins, "allow-origin", nil, "other `ORIGIN` that links and redirects may lead to, as https://cdn.example.org; may be repeated")
}

func (f *clientFlags) header() (http.Header, error) {
	h := make(http.Header)
	for _, field := range f.headers {
		name, value, ok := strings.Cut(field, ":")
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, exit.Usagef("--header wants \"NAME: VALUE\", but one has no NAME and \":\"") // and may be a secret
		}
		if strings.EqualFold(name, "Authorization") {
			return nil, exit.Usagef("--header: credentials are for --credentials-file or the variable FEEDCTL_CREDENTIALS")
		}
		h.Add(name, strings.TrimSpace(value))
	}
	return h, nil
}

// config returns the settings of a client of a server.
func (f *clientFlags) config(a *app) (consumer.Config, error) {
	credentials, err := credential.Read(f.credentialsFile, "FEEDCTL_CREDENTIALS")
	if err != nil {
		return consumer.Config{}, err
	}
	header, err := f.header()
	if err != nil {
		return consumer.Config{}, err
	}
	for _, origin := range f.allowOrigins {
		if _, err := parseURL(origin); err != nil {
			return consumer.Config{}, err
		}
	}
	return consumer.Config{
		HTTPClient:   &http.Client{Transport: a.web},
		Header:       header,
		Credentials:  credentials,
		AllowOrigins: f.allowOrigins,
		MaxWhole:     maxWhole,
		Retry:        consumer.RetryConfig{Attempts: f.retries},
		Logger:       a.log,
	}, nil
}

// A location is a feed or snapshot to read: on a server or, without a network, in a store.
type location struct {
	url    string // that the client asks for
	title  string // what it is called: where it is in a store, or the URL
	config consumer.Config
	store  storage.Store // nil for a server
	name   string        // in the store
	source *fromstore.Source
}

// locate finds out what the argument of a command means: a URL on a server, STORE#NAME,
// or NAME in the store of --store, which path turns into a URL path.
func (a *app) locate(ctx context.Context, f *clientFlags, arg string, path func(name string) string, want access) (*location, error) {
	config, err := f.config(a)
	if err != nil {
		return nil, err
	}
	if !stores.IsURL(arg) && isURL(arg) {
		if !isWeb(arg) {
			return nil, exit.Usagef("%q must begin with http:// or https://, or be STORE#NAME, where STORE is %s%s", sink.Redact(arg), stores.Forms, directoryHint(arg, "#NAME"))
		}
		u, err := parseURL(arg)
		if err != nil {
			return nil, err
		}
		return &location{url: u.String(), title: u.String(), config: config}, nil
	}
	at, err := a.parseStored(arg)
	if err != nil {
		return nil, err
	}
	store, err := a.openStoreAt(ctx, at.store, want)
	if err != nil {
		return nil, err
	}
	title := at.identity()
	here, _, _ := strings.Cut(title, "#")
	source := fromstore.New(store, fromstore.Config{Name: here, Logger: a.log})
	a.atEnd(func() error { source.Close(); return nil }, "source")
	config.Source = source
	return &location{
		url:    here + path(at.name),
		title:  title,
		config: config,
		store:  store,
		name:   at.name,
		source: source,
	}, nil
}

// base returns what the URLs of what is in the store begin with.
func (l *location) base() string {
	store, _, _ := strings.Cut(l.title, "#")
	return store
}

// snapshot returns the URL of the snapshot to begin with, or to start over from: the
// one of the feed's name if spec is empty, else the one that spec names.
func (l *location) snapshot(spec string) (string, error) {
	switch {
	case l.store == nil && spec == "":
		return snapshotOf(l.url)
	case l.store == nil:
		u, err := parseURL(spec)
		if err != nil {
			return "", err
		}
		return u.String(), nil
	case spec == "":
		return l.source.Snapshot(l.name), nil
	}
	here := l.base()
	store, name, whole := strings.Cut(spec, "#")
	where, _, _ := strings.Cut(stored{store, name}.identity(), "#")
	switch {
	case whole && (where != here || !stores.IsURL(store)), !whole && isURL(spec):
		return "", exit.Usagef("snapshot %q is not in the feed's store %s: want snapshot:NAME; one elsewhere goes with the feed's URL there", sink.Redact(spec), here)
	case !whole:
		name = spec
	}
	if err := layout.CheckName(name); err != nil {
		return "", exit.Usagef("snapshot:NAME of a feed in a store: %w", err)
	}
	return l.source.Snapshot(name), nil
}

// snapshotOf returns the URL of the snapshot that has a feed's name, where a
// feedctl server has it.
func snapshotOf(feedURL string) (string, error) {
	u, err := url.Parse(feedURL)
	if err == nil {
		if base, name, ok := strings.Cut(u.Path, "/feeds/"); ok && layout.CheckName(name) == nil {
			u.Path, u.RawQuery = base+layout.SnapshotPath(name), ""
			return u.String(), nil
		}
	}
	return "", exit.Usagef("the snapshot of %s cannot be guessed: give it as snapshot:URL", feedURL)
}
