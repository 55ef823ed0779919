package kinto_test

import (
	"context"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/kinto"
	sink "github.com/feedctl/feedctl/sink/kinto"
)

func ExampleOpen() {
	run := func(ctx context.Context, client *consumer.Client) error {
		zones, err := sink.Open(ctx, kinto.Config{URL: "https://kinto.example.com/v1/buckets/dns/collections/zones"}, sink.DefaultName)
		if err != nil {
			return err
		}
		defer zones.Close()
		job := consumer.Job{Client: client, URL: "https://data.example.org/feeds/zones", Sink: zones}
		_, err = job.Run(ctx)
		return err
	}
	_ = run // with a server
}
