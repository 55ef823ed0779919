package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/kintotest"
)

const (
	kintoIdlePart     = 1000 // the number of records divided by this is the number of collections
	kintoIdleInterval = 2 * time.Second
	kintoIdleTimes    = 5 // for how many intervals requests are counted
	kintoIdleRest     = 3 // collections are at rest after this many intervals with one request for each
)

// kintoIdle measures a process that follows a bucket whose collections do not change: its requests for
// the collections, not counting those that list the bucket, and its memory.
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
	dir := filepath.Join(b.dir, "kinto-idle")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	interval := kintoIdleInterval.String()
	p, err := b.start(nil, b.feedctl, "bridge", "kinto", fake.URL()+"/buckets/bench", "file:"+filepath.Join(dir, "store")+"#*",
		"--follow", "--interval", interval, "--window", interval, "--index", filepath.Join(dir, "index"), "--log-level", "warn")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.interrupt()) }()
	if err := b.kintoRest(fake, filepath.Join(dir, "store"), many); err != nil {
		return fmt.Errorf("%w: %s", err, p.stderr)
	}
	if err := b.sleep(kintoIdleTimes * kintoIdleInterval); err != nil {
		return err
	}
	requests := float64(kintoAsked(fake)) / kintoIdleTimes / float64(many)
	b.report.add(fmt.Sprintf("%d idle collections, each in an interval", many), "requests", requests, 1, "limit", atMost(1))
	memory, err := memoryOf(p.cmd.Process.Pid, "VmRSS")
	if err != nil {
		return err
	}
	b.report.add(fmt.Sprintf("memory of bridge, idle collections: %d", many), "MiB", mib(memory), 0, "no limit is promised", noTarget())
	return nil
}

// kintoRest waits until all collections have a feed and are at rest.
func (b *bench) kintoRest(fake *kintotest.Fake, store string, many int) error {
	feeds := 0
	for rested, last := 0, time.Now().Add(5*time.Minute); rested < kintoIdleRest; {
		if time.Now().After(last) {
			return fmt.Errorf("%d collections of %d have a feed, and they are not at rest", feeds, many)
		}
		if err := b.sleep(kintoIdleInterval); err != nil {
			return err
		}
		made, err := filepath.Glob(filepath.Join(store, "objects", "feeds", "*"))
		if err != nil {
			return err
		}
		feeds = len(made)
		if rested++; kintoAsked(fake) > many || feeds < many {
			rested = 0
		}
	}
	return nil
}

// kintoAsked returns the number of requests for collections since the last call of kintoAsked.
func kintoAsked(fake *kintotest.Fake) (n int) {
	for _, request := range fake.Requests() {
		if strings.Contains(request, "/collections/") {
			n++
		}
	}
	return n
}
