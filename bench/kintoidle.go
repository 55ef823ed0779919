package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	bridge "github.com/feedctl/feedctl/bridge/kinto"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/storage/file"
)

const (
	kintoIdlePart     = 1000 // of the records, one is a collection here
	kintoIdleInterval = 2 * time.Second
	kintoIdleTimes    = 5 // how many intervals requests are counted
	kintoIdleAfter    = 4 // how often a bridge has seen no change until it is at rest
)

// kintoIdle counts the requests for collections that do not change, by one process that follows all
// of them.
func (b *bench) kintoIdle() (err error) {
	fake := kintotest.LaunchFake()
	defer fake.Close()
	many := max(b.kintoRecords/kintoIdlePart, 1)
	for i := range many {
		collection, err := b.newKinto(fake.URL(), fmt.Sprintf("idle-%05d", i))
		if err != nil {
			return err
		}
		fake.Fill(collection, 1, kintoRecord)
	}
	server, err := kinto.OpenServer(kinto.Config{URL: fake.URL()})
	if err != nil {
		return err
	}
	dir := filepath.Join(b.dir, "kinto-idle")
	store, err := file.New(dir)
	if err != nil {
		return err
	}
	var resting atomic.Int64
	bucket := bridge.Bucket{Server: server, Bucket: "bench", Follow: true, Interval: time.Hour, Store: store, Feeds: "*", Job: func(_, feed string) *bridge.Job {
		seen := 0
		return &bridge.Job{Config: bridge.Config{
			Index: filepath.Join(dir, feed+".index"), Window: kintoIdleInterval, Interval: kintoIdleInterval,
			Idle: func() {
				if seen++; seen == kintoIdleAfter {
					resting.Add(1)
				}
			},
		}}
	}}
	ctx, stop := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	go func() { ended <- bucket.Run(ctx) }()
	defer func() {
		stop()
		if e := <-ended; !errors.Is(e, context.Canceled) {
			err = errors.Join(err, e)
		}
		err = errors.Join(err, store.Close(), os.RemoveAll(dir))
	}()
	for last := time.Now().Add(5 * time.Minute); resting.Load() < int64(many); {
		if time.Now().After(last) {
			return fmt.Errorf("%d of %d collections are at rest", resting.Load(), many)
		}
		if err := b.sleep(kintoIdleInterval / 10); err != nil {
			return err
		}
	}
	fake.Requests()
	if err := b.sleep(kintoIdleTimes * kintoIdleInterval); err != nil {
		return err
	}
	requests := float64(len(fake.Requests())) / kintoIdleTimes / float64(many)
	b.report.add(fmt.Sprintf("%d idle collections, each in an interval", many), "requests", requests, 1, "limit", atMost(1))
	return nil
}
