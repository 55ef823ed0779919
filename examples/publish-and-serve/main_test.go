package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"github.com/feedctl/feedctl/consumer"
)

func Example() {
	dir, err := os.MkdirTemp("", "publish-and-serve-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- run(ctx, io.Discard, dir, listener) }()

	client, err := consumer.New(consumer.Config{Follow: true})
	if err != nil {
		log.Fatal(err)
	}
	url := fmt.Sprintf("http://%s/feeds/weather", listener.Addr())
	n := 0
	for e, err := range client.Entities(ctx, url, consumer.Beginning()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s %q\n", e.Operation, e.Key(), e.Body)
		if n++; n == 3 {
			break
		}
	}
	cancel()
	fmt.Println(<-done)
	// Output:
	// PUT Bern "{\"temperature\":11}"
	// PUT Lima "{\"temperature\":24}"
	// DELETE Bern ""
	// <nil>
}
