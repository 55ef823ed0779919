package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/feedctl/feedctl/layout"
)

// memoryLimit is what a feedctl process may have in memory at most.
const memoryLimit = 64 << 20

func (b *bench) reportMemory(what string, p *process) {
	b.report.add("memory of "+what, "MiB", mib(p.peak), mib(memoryLimit), "limit", below(mib(memoryLimit)))
}

// memory measures the peak of each kind of process, also with an entity that
// is larger than all of them may be.
func (b *bench) memory() error {
	dir := filepath.Join(b.dir, "memory")
	if err := b.publishLines(dir); err != nil {
		return err
	}
	if err := b.publishHuge(dir); err != nil {
		return err
	}
	s, err := b.serveStore(dir)
	if err != nil {
		return err
	}
	err = b.consumeHuge(s)
	if err = errors.Join(err, s.interrupt()); err != nil {
		return err
	}
	b.reportMemory(fmt.Sprintf("serve, one entity of %g MiB", mib(b.huge)), s.process)
	return nil
}

// publishLines publishes many small entities from a file.
func (b *bench) publishLines(dir string) (err error) {
	name := filepath.Join(b.dir, "in.ndjson")
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(name)) }()
	w := bufio.NewWriter(file)
	for i := range b.entities {
		w.Write(newEntity(i).Body) //nolint:errcheck // Flush returns it
		w.WriteByte('\n')          //nolint:errcheck // Flush returns it
	}
	if err := errors.Join(w.Flush(), file.Close()); err != nil {
		return err
	}
	p, took, err := b.run(nil, b.feedctl, "publish", "bench", name, "--key", "/id", "--store", "file:"+dir)
	if err != nil {
		return err
	}
	b.report.add("publish 1 KB from a file", "entities/s", float64(b.entities)/took.Seconds(), 0, "", noTarget())
	b.reportMemory("publish", p)
	return nil
}

// publishHuge publishes one entity of b.huge bytes, from a file that takes no
// room on the disk.
func (b *bench) publishHuge(dir string) (err error) {
	name := filepath.Join(b.dir, "huge")
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(name)) }()
	if err := errors.Join(file.Truncate(b.huge), file.Close()); err != nil {
		return err
	}
	p, took, err := b.run(nil, b.feedctl, "publish", "huge", name, "--format", "raw", "--key-value", "huge",
		"--content-type", "application/octet-stream", "--store", "file:"+dir)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("one entity of %g MiB", mib(b.huge))
	b.report.add("publish "+what, "MB/s", float64(b.huge)/1e6/took.Seconds(), 0, "", noTarget())
	b.reportMemory("publish, "+what, p)
	return nil
}

// consumeHuge consumes the huge entity into a directory.
func (b *bench) consumeHuge(s *server) error {
	into := filepath.Join(b.dir, "files")
	p, took, err := b.run(nil, b.feedctl, "consume", s.url+layout.FeedPath("huge"), "--into", "dir:"+into)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("one entity of %g MiB", mib(b.huge))
	b.report.add("consume "+what+" into dir", "MB/s", float64(b.huge)/1e6/took.Seconds(), 0, "", noTarget())
	b.reportMemory("consume, "+what, p)
	return os.RemoveAll(into)
}
