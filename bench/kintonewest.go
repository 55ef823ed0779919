package main

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/feedctl/feedctl/layout"
)

// kintoNewestFirst measures how long it takes until the newest records of a collection are in a table,
// by way of a new feed, and how much memory the bridge needs until it has read the oldest records.
func (b *bench) kintoNewestFirst(source string) error {
	bridge, consumer, err := b.kintoNewestInTable(source)
	if err != nil {
		return err
	}
	rest, _, err := b.bridgeKinto(source, kintoNewestFeed, "--newest-first")
	if err != nil {
		return err
	}
	rest.peak = max(rest.peak, bridge.peak)
	b.reportMemory("bridge of records, newest first", rest)
	b.reportMemory("consume of the newest records", consumer)
	return nil
}

// kintoNewestInTable runs a bridge and a consumer until the table has the newest records, and returns
// both processes, which have ended.
func (b *bench) kintoNewestInTable(source string) (_, _ *process, err error) {
	s, err := b.serveStore(b.kintoStore())
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, s.interrupt()) }()
	count := min(kintoNewest, b.kintoRecords)
	table := filepath.Join(b.dir, "kinto-newest.db")
	start := time.Now()
	bridge, err := b.start(nil, b.feedctl, b.kintoBridge(source, kintoNewestFeed, "--newest-first", "--follow")...)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, bridge.interrupt()) }()
	consumer, err := b.start(nil, b.feedctl, "consume", s.url+layout.FeedPath(kintoNewestFeed), "--into", "sqlite:"+table+"?table=newest", "--follow", "--log-level", "warn")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, consumer.interrupt()) }()
	if err := b.kintoArrival(table, count); err != nil {
		return nil, nil, err
	}
	b.report.add(fmt.Sprintf("newest %d of %d records in a table", count, b.kintoRecords), "s", time.Since(start).Seconds(), 0, "", atMost(2))
	return bridge, consumer, nil
}

// kintoArrival waits until a table has the newest records.
func (b *bench) kintoArrival(table string, count int) (err error) {
	db, err := sql.Open("sqlite", "file:"+table+"?mode=ro&_pragma=busy_timeout(1000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for n, last := 0, time.Now().Add(time.Minute); n < count; {
		// The table may not exist yet.
		failed := db.QueryRowContext(b.ctx, "SELECT count(*) FROM newest WHERE CAST(substr(key, 2) AS INTEGER) >= ?", b.kintoRecords-count).Scan(&n)
		if time.Now().After(last) {
			return errors.Join(fmt.Errorf("the table has %d of %d records after a minute", n, count), failed)
		}
		if err := b.sleep(10 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
