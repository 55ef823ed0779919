package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
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
		if _, err := locate.ParseURL(origin); err != nil {
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

// locate finds what an argument names: a URL on a server, STORE#NAME, or NAME in the store of
// --store. Path is the path of its URL, such as [layout.FeedPath].
func (a *app) locate(ctx context.Context, f *clientFlags, arg string, path func(name string) string, want access) (*locate.Location, error) {
	config, err := f.config(a)
	if err != nil {
		return nil, err
	}
	if at, err := locate.Server(arg, config); at != nil || err != nil {
		return at, err
	}
	at, err := a.parseStored(arg)
	if err != nil {
		return nil, err
	}
	store, err := a.openStoreAt(ctx, at.Store, want)
	if err != nil {
		return nil, err
	}
	found := at.Open(store, path, config)
	a.atEnd(found.Close, "source")
	return found, nil
}

// tellMissing prints on a terminal that the client waits for a feed that does not exist, and the
// name of a similar one. Otherwise the log says so.
func (a *app) tellMissing(at *locate.Location) {
	if !a.terminal {
		return
	}
	at.Config.Missing = func(ctx context.Context) {
		feed, question := at.DidYouMean(ctx)
		a.console.Clear()
		fmt.Fprintf(a.err, "feedctl: waiting for feed %q, which does not exist yet%s\n", feed, question)
	}
}

// suggestSimilar adds the name of a similar feed to an error if it says that the feed does not exist.
func suggestSimilar(ctx context.Context, at *locate.Location, err error) error {
	if errors.Is(err, chain.ErrNoFeed) || errors.Is(err, consumer.ErrNotFound) || exit.HTTPStatus(err) == http.StatusNotFound {
		return at.Suggest(ctx, err)
	}
	return err
}
