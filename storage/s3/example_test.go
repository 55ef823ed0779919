package s3_test

import (
	"context"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/s3"
)

func ExampleConnect() {
	publish := func(ctx context.Context, e *feed.Entity) error {
		store, err := s3.Connect(ctx, s3.Config{Bucket: "BUCKET", Prefix: "PREFIX", Region: "eu-central-1"})
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
	_ = publish // with a bucket
}
