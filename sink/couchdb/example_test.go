package couchdb_test

import (
	"context"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	sink "github.com/feedctl/feedctl/sink/couchdb"
)

func ExampleOpen() {
	run := func(ctx context.Context, client *consumer.Client) error {
		zones, err := sink.Open(ctx, couchdb.Config{URL: "https://copy.example.com/zones"}, sink.DefaultName)
		if err != nil {
			return err
		}
		defer zones.Close()
		job := consumer.Job{Client: client, URL: "https://data.example.org/feeds/zones", Sink: zones}
		_, err = job.Run(ctx)
		return err
	}
	_ = run // with a database
}
