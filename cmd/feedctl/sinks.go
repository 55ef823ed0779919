package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/feedctl/feedctl/consumer"
	couch "github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sinks"
)

// openSink opens the sink that --into names. A credential for it is in the file
// credentials, or in a variable.
func openSink(ctx context.Context, a *app.App, spec, credentials string) (consumer.Sink, error) {
	o, err := sinkOptions(a, spec, credentials)
	if err != nil {
		return nil, err
	}
	s, err := sinks.Open(ctx, spec, o)
	if errors.Is(err, sink.ErrSpec) {
		return nil, exit.Usagef("%w", err)
	}
	return s, err
}

// sinkOptions returns what is needed to open a sink beside its name.
func sinkOptions(a *app.App, spec, credentials string) (o sinks.Options, err error) {
	s, err := sink.ParseSpec(spec)
	if err != nil {
		return o, exit.Usagef("%w", err)
	}
	o = sinks.Options{Output: a.Output, Logger: a.Log}
	if s.Scheme == "couchdb" {
		o.CouchDB, err = couchSink(a, s, credentials)
	}
	return o, err
}

// columnsOf adds --columns and --strict to the sink that --into names.
func (f *consumeFlags) columnsOf() (spec string, err error) {
	if f.columns == "" && !f.strict {
		return f.into, nil
	}
	s, err := sink.ParseSpec(f.into)
	if err != nil {
		return "", exit.Usagef("%w", err)
	}
	if s.Scheme != "postgres" && s.Scheme != "postgresql" {
		return "", exit.Usagef("--columns and --strict are for sinks in PostgreSQL")
	}
	if f.columns != "" {
		s.Params.Add("columns", f.columns)
	}
	if f.strict {
		s.Params.Set("strict", "true")
	}
	return s.String(), nil
}

const intoCredentialsUsage = "`FILE` with the credential for a sink in CouchDB (default: the variable FEEDCTL_INTO_CREDENTIALS)"

// couchSink returns the settings for a sink in CouchDB but its URL.
func couchSink(a *app.App, s sink.Spec, credentials string) (couch.Config, error) {
	if !locate.IsWeb(s.Path) {
		shown := strings.TrimPrefix(sink.Redact("http://"+s.Path), "http://")
		return couch.Config{}, exit.Usagef("sink couchdb:%s: want couchdb:http://HOST:PORT/DATABASE, or one with https://", shown)
	}
	if u, err := url.Parse(s.Path); err == nil && u.User != nil {
		return couch.Config{}, exit.WithHint(
			exit.Usagef("sink couchdb:%s contains credentials, which other users of this machine can see", sink.Redact(s.Path)),
			"--into-credentials-file FILE, or the variable FEEDCTL_INTO_CREDENTIALS, with a line \"basic USER:PASSWORD\"",
		)
	}
	auth, err := (credential.Source{File: credentials, Variable: "FEEDCTL_INTO_CREDENTIALS"}).ReadCouch()
	return couch.Config{HTTP: &http.Client{Transport: a.Transport}, Auth: auth, Log: a.Log}, err
}

// warnRefused tells, at the end and beside the log, of documents that a database does
// not have. The command has done what it could, so this is no error.
func warnRefused(a *app.App, r consumer.Rejected, into string) {
	if r.Refused == 0 || a.JSON {
		return
	}
	fmt.Fprintf(a.Err, "feedctl: %s refused %s, which it does not have now:\n", into, human.Plural(r.Refused, "document", "documents"))
	stubs := false
	for _, refusal := range r.Refusals {
		fmt.Fprintf(a.Err, "  %s: %s\n", human.Printable(refusal.ID), human.Printable(refusal.Reason))
		stubs = stubs || strings.HasPrefix(refusal.Reason, missingStub)
	}
	if more := r.Refused - int64(len(r.Refusals)); more > 0 {
		fmt.Fprintf(a.Err, "  and %s more: see the log\n", human.Count(more))
	}
	if stubs {
		fmt.Fprintln(a.Err, "Try: a feed made with \"feedctl bridge couchdb --attachments inline\" or \"multipart\": this one has attachments by name only")
	}
}

// missingStub is CouchDB's code for a document with an attachment of which it gets, and
// has, the name only.
const missingStub = "missing_stub"
