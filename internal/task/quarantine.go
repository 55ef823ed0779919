package task

import (
	"context"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/bridge/couchdb"
	bridgekinto "github.com/feedctl/feedctl/bridge/kinto"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/storage"
)

// A RetryQuarantined publishes again what a bridge has put into quarantine.
type RetryQuarantined struct {
	Feed   string // NAME or STORE#NAME
	Source CouchSource
}

// Run publishes what can be published now, with the filter and options of the run that put it into quarantine.
func (q *RetryQuarantined) Run(ctx context.Context, e *Env) (report bridge.RetryReport, err error) {
	store, _, err := e.OpenNamed(ctx, q.Feed)
	if err != nil {
		return report, err
	}
	at, err := e.Parse(q.Feed)
	if err != nil {
		return report, err
	}
	b, err := q.open(ctx, e, at, store)
	if err != nil {
		return report, err
	}
	e.AtEnd(b.Close, "bridge")
	report, err = b.Retry(ctx)
	return report, HintSource(err)
}

// A retrier is a bridge that publishes what is in quarantine.
type retrier interface {
	Retry(ctx context.Context) (bridge.RetryReport, error)
	Close() error
}

// open opens the bridge of the source: a collection of Kinto, if the URL is that of one, or a database
// of CouchDB.
func (q *RetryQuarantined) open(ctx context.Context, e *Env, at locate.Stored, store storage.Store) (retrier, error) {
	s := &q.Source
	if address, err := kinto.ParseURL(s.URL); err == nil && address.Collection != "" {
		collection := KintoSource{URL: s.URL, Credential: s.Credential, Index: s.Index, MaxRecord: s.MaxDocument}
		config, err := collection.Config(e, at, store, bridgekinto.Config{})
		if err != nil {
			return nil, err
		}
		return bridgekinto.Open(ctx, config)
	}
	config, err := s.Config(e, at, store, couchdb.Config{})
	if err != nil {
		return nil, err
	}
	return couchdb.Open(ctx, config)
}
