package main

import (
	"context"
	"log"
	"os"

	"github.com/feedctl/feedctl/internal/pgtest"
)

func Example() {
	postgres, err := pgtest.New()
	if err != nil {
		log.Fatal(err)
	}
	defer postgres.Close()
	database, err := postgres.Database("shop")
	if err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), os.Stdout, database); err != nil {
		log.Fatal(err)
	}
	// Output:
	// sold 3 of tea to Ada
	// sold 4 of tea to Grace
	// not sold: not enough in stock: only 3 of tea are left
	// PUT 1 {"customer":"Ada","article":"tea","amount":3}
	// PUT 2 {"customer":"Grace","article":"tea","amount":4}
}
