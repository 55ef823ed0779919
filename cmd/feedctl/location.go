package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
)

// localOrigin is the made-up origin of a store that is read without a network.
const localOrigin = "http://store.invalid"

const (
	credentialsUsage = "`FILE` with the credential for the server (default: the variable FEEDCTL_CREDENTIALS)"
	headerUsage      = "`NAME: VALUE` to send with each request; may be repeated"
)

// clientFlags are those of all commands that read from a server.
type clientFlags struct {
	credentialsFile string
	headers         []string
	allowOrigins    []string
	retries         int
}

func (f *clientFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.credentialsFile, "credentials-file", "", credentialsUsage)
	flags.StringArrayVar(&f.headers, "header", nil, headerUsage)
	flags.IntVar(&f.retries, "retries", 0, "give up after a request failed this `NUMBER` of times in a row; negative: never (default 8, or never with --follow)")
	flags.StringArrayVar(&f.allowOrigins, "allow-origin", nil, "other `ORIGIN` that links may lead to, as https://cdn.example.org; may be repeated")
}

func (f *clientFlags) credentials() (consumer.Credentials, error) {
	c, err := readCredential(f.credentialsFile)
	if err != nil {
		return consumer.Credentials{}, err
	}
	return consumer.Credentials{Username: c.username, Password: c.password, Bearer: c.bearer}, nil
}

func (f *clientFlags) header() (http.Header, error) {
	h := make(http.Header)
	for _, field := range f.headers {
		name, value, ok := strings.Cut(field, ":")
		name = strings.TrimSpace(name)
		if !ok || name == "" {
			return nil, usagef("--header %q is not NAME: VALUE", field)
		}
		if strings.EqualFold(name, "Authorization") {
			return nil, usagef("--header: credentials are for --credentials-file or the variable FEEDCTL_CREDENTIALS")
		}
		h.Add(name, strings.TrimSpace(value))
	}
	return h, nil
}

// config returns the settings of a client of a server.
func (f *clientFlags) config(a *app) (consumer.Config, error) {
	credentials, err := f.credentials()
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
		Header:       header,
		Credentials:  credentials,
		AllowOrigins: f.allowOrigins,
		MaxWhole:     maxWhole,
		Retry:        consumer.RetryConfig{Attempts: f.retries},
		Logger:       a.log,
	}, nil
}

// A location is a feed or snapshot to read: on a server or, without a network, in the store.
type location struct {
	url    string
	config consumer.Config
	store  storage.Store // nil for a server
	name   string        // in the store
	close  func() error
}

// locate finds out what the argument of a command means: a URL, or a name in the
// store, which path turns into a URL path.
func (a *app) locate(ctx context.Context, f *clientFlags, arg string, path func(name string) string) (*location, error) {
	config, err := f.config(a)
	if err != nil {
		return nil, err
	}
	if isURL(arg) {
		u, err := parseURL(arg)
		if err != nil {
			return nil, err
		}
		return &location{url: u.String(), config: config, close: func() error { return nil }}, nil
	}
	if err := layout.CheckName(arg); err != nil {
		return nil, err
	}
	store, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	client, err := localClient(store)
	if err != nil {
		return nil, err
	}
	config.HTTPClient = client
	return &location{
		url:    localOrigin + path(arg),
		config: config,
		store:  store,
		name:   arg,
		close:  store.Close,
	}, nil
}

// localClient reads from a store as from a server.
func localClient(store storage.Store) (*http.Client, error) {
	handler, err := server.New(store, server.Config{PublicURL: localOrigin})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: server.Transport(handler)}, nil
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
	return "", usagef("the snapshot of %s cannot be guessed: give it as snapshot:URL", feedURL)
}
