package task

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sinks"
)

// IntoFlags adds the flag for the credential of a sink.
func IntoFlags(flags *pflag.FlagSet, s *credential.Source) {
	s.Variable = "FEEDCTL_INTO_CREDENTIALS"
	flags.StringVar(&s.File, "into-credentials-file", "", "`FILE` with the credential for a sink in CouchDB or Kinto (default: the variable FEEDCTL_INTO_CREDENTIALS)")
}

// forms holds the syntax of the URLs of sinks, by scheme.
var forms = map[string]string{
	"couchdb": "http://HOST:PORT/DATABASE",
	"kinto":   "http://HOST:PORT/v1/buckets/BUCKET/collections/COLLECTION",
}

// parseSink parses and checks the name of a sink.
func parseSink(spec string) (sink.Spec, error) {
	s, err := sink.ParseSpec(spec)
	switch {
	case err != nil:
		return s, exit.Usagef("%w", err)
	case forms[s.Scheme] == "":
		return s, nil
	case !locate.IsWeb(s.Path):
		shown := strings.TrimPrefix(sink.Redact("http://"+s.Path), "http://")
		return s, exit.Usagef("sink %s:%s: want %[1]s:%[3]s, or one with https://", s.Scheme, shown, forms[s.Scheme])
	}
	if u, err := url.Parse(s.Path); err == nil && u.User != nil {
		return s, exit.WithHint(
			exit.Usagef("sink %s:%s contains credentials, which other users of this machine can see", s.Scheme, sink.Redact(s.Path)),
			"--into-credentials-file FILE, or the variable FEEDCTL_INTO_CREDENTIALS, with a line \"basic USER:PASSWORD\"",
		)
	}
	return s, nil
}

// SinkOptions returns the options with which to open a sink.
func (e *Env) SinkOptions(spec string, from credential.Source) (o sinks.Options, err error) {
	s, err := parseSink(spec)
	if err != nil {
		return o, err
	}
	o = sinks.Options{Output: e.Output, Logger: e.Log}
	switch s.Scheme {
	case "couchdb":
		o.CouchDB = couchdb.Config{HTTP: &http.Client{Transport: e.Transport}, Log: e.Log}
		o.CouchDB.Auth, err = from.ReadCouch()
	case "kinto":
		o.Kinto = kinto.Config{HTTP: &http.Client{Transport: e.Transport}, Log: e.Log}
		o.Kinto.Auth, err = from.ReadKinto()
	}
	return o, err
}

// openSink opens a sink.
func (e *Env) openSink(ctx context.Context, spec string, from credential.Source) (consumer.Sink, error) {
	o, err := e.SinkOptions(spec, from)
	if err != nil {
		return nil, err
	}
	s, err := sinks.Open(ctx, spec, o)
	if errors.Is(err, sink.ErrSpec) {
		return nil, exit.Usagef("%w", err)
	}
	return s, err
}
