package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/postgres"
	"github.com/feedctl/feedctl/storage/stores"
)

// Sources returns the sources for all types of servers. Their HTTP requests, except those to S3, are
// sent with transport; if it is nil, each server gets a new transport.
func Sources(transport http.RoundTripper) map[string]Source {
	return map[string]Source{
		"couchdb": CouchDB{Transport: transport},
		"feedctl": Feeds{Transport: transport},
		"kinto":   Kinto{Transport: transport},
		"outbox":  Outbox{Open: openOutbox},
		"store":   byScheme{"file": Files{Open: openStore}, "s3": S3{Open: openStore}, "postgres": Postgres{Open: openPostgres}, "postgresql": Postgres{Open: openPostgres}},
	}
}

// byScheme holds the sources for stores, by the schemes of their URLs.
type byScheme map[string]Source

// Watch implements [Source].
func (b byScheme) Watch(ctx context.Context, w *Watched) error {
	u, err := url.Parse(w.Server)
	if err != nil { // err has the URL
		return errors.New("malformed URL of a store")
	}
	source, ok := b[u.Scheme]
	if !ok {
		return fmt.Errorf("store %s cannot be watched", u.Redacted())
	}
	return source.Watch(ctx, w)
}

func openStore(ctx context.Context, server, _ string) (storage.Store, error) {
	return stores.Open(ctx, server, stores.Options{})
}

func openPostgres(ctx context.Context, server, reference string) (*postgres.Store, error) {
	server, err := withPassword(server, reference)
	if err != nil {
		return nil, err
	}
	store, err := stores.Open(ctx, server, stores.Options{})
	if err != nil {
		return nil, err
	}
	p, ok := storage.As[*postgres.Store](store)
	if !ok {
		return nil, errors.Join(errors.New("store is not in PostgreSQL"), store.Close())
	}
	return p, nil
}

func openOutbox(ctx context.Context, server, reference string) (*outbox.DB, error) {
	server, err := withPassword(server, reference)
	if err != nil {
		return nil, err
	}
	return outbox.Open(ctx, server)
}

// withPassword returns the URL of a database with the password to which reference refers, unless
// reference is empty.
func withPassword(server, reference string) (string, error) {
	if reference == "" {
		return server, nil
	}
	source, err := credential.ParseReference(reference)
	if err != nil {
		return "", err
	}
	password, err := source.ReadPassword()
	if err != nil {
		return "", err
	}
	u, err := url.Parse(server)
	if err != nil { // err has the URL
		return "", errors.New("malformed URL of a database")
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String(), nil
}
