package postgres_test

import (
	"context"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink/postgres"
)

func ExampleOpen() {
	run := func(ctx context.Context, client *consumer.Client) error {
		products, err := postgres.Open(ctx, "postgres://shop@db.example.org/shop", postgres.Options{
			Table:   "public.products",
			Columns: "id=@key:bigint,name=/name:text not null,price=/price:numeric(10,2)",
		})
		if err != nil {
			return err
		}
		defer products.Close()
		job := consumer.Job{Client: client, URL: "https://data.example.org/feeds/products", Sink: products}
		_, err = job.Run(ctx)
		return err
	}
	_ = run // with a database
}
