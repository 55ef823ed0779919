package postgres_test

import (
	"context"
	"net/url"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/postgres"
)

func ExampleCreate() {
	publish := func(ctx context.Context, e *feed.Entity) error {
		store, err := postgres.Create(ctx, &url.URL{Scheme: "postgres", User: url.User("feedctl"), Host: "db.example.org", Path: "/shop"})
		if err != nil {
			return err
		}
		defer store.Close()
		zones, err := producer.Open(ctx, store, "zones", producer.Config{})
		if err != nil {
			return err
		}
		defer zones.Close()
		_, err = zones.Publish(ctx, e)
		return err
	}
	_ = publish // with a database
}
