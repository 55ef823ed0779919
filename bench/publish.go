package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/file"
)

// publish measures many publishers, each of which publishes one entity after another and waits until
// it is durable. The alternative is the minimum cost of durability: the same bytes are appended to one
// file, which is written and synced once for all publishers that wait at that moment.
func (b *bench) publish() error {
	for _, load := range []struct {
		publishers int
		goal       target
	}{{1, atLeastRatio(0.8)}, {16, atLeastRatio(1)}, {256, atLeastRatio(0.9)}} {
		publishers := load.publishers
		ours, err := b.publishFeed(publishers)
		if err != nil {
			return err
		}
		other, err := b.publishLog(publishers, false)
		if err != nil {
			return err
		}
		limit, err := b.publishLog(publishers, true)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("publish 1 KB, publishers: %d", publishers)
		const otherName = "group-committed append and fdatasync to one file"
		b.report.add(name, "entities/s", ours, other, otherName, load.goal)
		b.report.add(name+", a log of two files", "entities/s", limit, other, otherName, noTarget())
		b.report.add(name, "MB/s", ours*entitySize/1e6, other*entitySize/1e6, otherName, noTarget())
	}
	return nil
}

// publishFeed publishes in a separate process, because its memory is measured, too.
func (b *bench) publishFeed(publishers int) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	var out bytes.Buffer
	p, _, err := b.run(&out, self, "-publishers", strconv.Itoa(publishers), "-dir", b.dir, "-time", b.time.String())
	if err != nil {
		return 0, err
	}
	b.reportMemory(fmt.Sprintf("%d publishers", publishers), p)
	return strconv.ParseFloat(strings.TrimSpace(out.String()), 64)
}

// publishOnly is the process that publishFeed starts. It prints entities a second.
func (b *bench) publishOnly(publishers int) (err error) {
	debug.SetMemoryLimit(memoryLimit / 2) // as the command does
	store, err := file.New(filepath.Join(b.dir, "store"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	f, err := producer.Open(b.ctx, store, "bench", producer.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	rate, err := b.load(publishers, func(ctx context.Context, e *feed.Entity) error {
		_, err := f.Publish(ctx, e)
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Println(rate)
	return err
}

// publishLog appends to one file or, if two is set, also syncs a second file with each commit, to show
// the cost of a store that keeps the state of an object apart from its body.
func (b *bench) publishLog(publishers int, two bool) (_ float64, err error) {
	name := filepath.Join(b.dir, fmt.Sprintf("log-%d-%t", publishers, two))
	out, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	var state *os.File
	if two {
		if state, err = os.Create(name + "-state"); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, state.Close()) }()
	}
	l := newGroupLog(out, state)
	defer l.close()
	return b.load(publishers, func(_ context.Context, e *feed.Entity) error { return l.append(e.Body) })
}

// load calls publish from the given number of goroutines for the duration of a measurement
// and returns calls per second.
func (b *bench) load(publishers int, publish func(context.Context, *feed.Entity) error) (float64, error) {
	ctx, cancel := context.WithCancelCause(b.ctx)
	defer cancel(nil)
	var done atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for worker := range publishers {
		wg.Go(func() {
			e := newEntity(worker)
			for time.Since(start) < b.time && ctx.Err() == nil {
				next := *e // without the Content-ID that publishing sets
				if err := publish(ctx, &next); err != nil {
					cancel(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(start).Seconds(), context.Cause(ctx)
}
