package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/feedctl/feedctl/layout"
)

// consume consumes a feed from a server on this machine into jsonl and SQLite.
func (b *bench) consume() error {
	dir, pages, err := b.fill("consume", b.entities)
	if err != nil {
		return err
	}
	s, err := b.serveStore(dir)
	if err != nil {
		return err
	}
	err = errors.Join(b.consumeJSONL(s, pages), b.consumeSQLite(s))
	if err = errors.Join(err, s.interrupt()); err != nil {
		return err
	}
	b.reportMemory("serve to these consumers", s.process)
	return nil
}

func (b *bench) consumeJSONL(s *server, pages int64) error {
	all := fmt.Sprintf("%s%s/pages/[1-%d]", s.url, layout.FeedPath("bench"), pages)
	_, discarded, err := b.run(nil, "curl", "-sf", "-o", "/dev/null", all)
	if err != nil {
		return err
	}
	_, stored, err := b.download(all)
	if err != nil {
		return err
	}
	file := filepath.Join(b.dir, "out.jsonl")
	p, ours, err := b.run(nil, b.feedctl, "consume", s.url+layout.FeedPath("bench"), "--into", "jsonl:"+file)
	if err != nil {
		return err
	}
	const name = "consume 1 KB into jsonl"
	count := float64(b.entities)
	for _, other := range []struct {
		name   string
		took   time.Duration
		target target
	}{
		{downloadSyncedName, stored, atLeastRatio(0.7)},
		{"curl -o /dev/null", discarded, atLeastRatio(0.4)},
	} {
		b.report.add(name, "entities/s", count/ours.Seconds(), count/other.took.Seconds(), other.name, other.target)
	}
	b.report.add(name, "MB/s", count*entitySize/1e6/ours.Seconds(), count*entitySize/1e6/stored.Seconds(), downloadSyncedName, noTarget())
	b.reportMemory("consume into jsonl", p)
	return os.Remove(file)
}

func (b *bench) consumeSQLite(s *server) error {
	start := time.Now()
	if err := insertStraight(filepath.Join(b.dir, "straight.db"), b.entities); err != nil {
		return err
	}
	other := time.Since(start)
	file := filepath.Join(b.dir, "out.db")
	p, ours, err := b.run(nil, b.feedctl, "consume", s.url+layout.FeedPath("bench"),
		"--into", "sqlite:"+file+"?table=entities")
	if err != nil {
		return err
	}
	count := float64(b.entities)
	b.report.add("consume 1 KB into SQLite", "rows/s", count/ours.Seconds(), count/other.Seconds(),
		"the same rows inserted straight into SQLite", atLeastRatio(1.2))
	b.reportMemory("consume into SQLite", p)
	return nil
}
