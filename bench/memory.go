package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/feedctl/feedctl/layout"
)

// memoryLimit is the target for the peak memory of a feedctl process, in bytes.
const memoryLimit = 64 << 20

func (b *bench) reportMemory(what string, p *process) {
	b.report.addWorst("memory of "+what, "MiB", mib(p.peak), mib(memoryLimit), "limit", below(mib(memoryLimit)))
}

// memory measures the peak memory of each kind of process, including with an entity that is larger
// than memoryLimit. The alternatives move the same bytes.
func (b *bench) memory() error {
	dir := filepath.Join(b.dir, "memory")
	if err := b.publishLines(dir); err != nil {
		return err
	}
	if err := b.commandMemory(dir); err != nil {
		return err
	}
	huge := filepath.Join(b.dir, "huge")
	if err := makeHuge(huge, b.huge); err != nil {
		return err
	}
	defer os.Remove(huge)
	s, err := b.serveStore(dir, "--writable")
	if err != nil {
		return err
	}
	err = b.moveHuge(s, dir, huge)
	if err = errors.Join(err, s.interrupt()); err != nil {
		return err
	}
	b.reportMemory("serve, "+b.hugeName()+", in and out", s.process)
	return nil
}

func (b *bench) hugeName() string { return fmt.Sprintf("one entity of %g MiB", mib(b.huge)) }

func makeHuge(name string, size int64) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(file.Truncate(size), file.Close())
}

// copyTime returns how long it takes to copy a file to the disk.
func (b *bench) copyTime(name string) (time.Duration, error) {
	to := filepath.Join(b.dir, "copy")
	defer os.Remove(to)
	_, took, err := b.run(nil, "dd", "if="+name, "of="+to, "bs=1M", "conv=fsync", "status=none")
	return took, err
}

const copyName = "dd conv=fsync of the same bytes"

// publishLines publishes many small entities from a file.
func (b *bench) publishLines(dir string) (err error) {
	name, remove, err := b.linesFile(b.entities)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	other, err := b.copyTime(name)
	if err != nil {
		return err
	}
	p, took, err := b.run(nil, b.feedctl, "publish", "bench", name, "--key", "/id", "--store", "file:"+dir)
	if err != nil {
		return err
	}
	count := float64(b.entities)
	b.report.add("publish 1 KB from a file", "entities/s", count/took.Seconds(), count/other.Seconds(), copyName, atLeastRatio(0.6))
	b.reportMemory("publish from a file", p)
	return b.reportParsing(name, count/other.Seconds())
}

// linesFile creates a file with n small entities, one per line.
func (b *bench) linesFile(entities int) (name string, remove func() error, err error) {
	name = filepath.Join(b.dir, "in.ndjson")
	file, err := os.Create(name)
	if err != nil {
		return "", nil, err
	}
	w := bufio.NewWriter(file)
	for i := range entities {
		w.Write(newEntity(i).Body) //nolint:errcheck // Flush returns it
		w.WriteByte('\n')          //nolint:errcheck // Flush returns it
	}
	return name, func() error { return os.Remove(name) }, errors.Join(w.Flush(), file.Close())
}

// moveHuge publishes the huge entity to the store and to the server, and consumes
// it from there.
func (b *bench) moveHuge(s *server, dir, huge string) error {
	copied, err := b.copyTime(huge)
	if err != nil {
		return err
	}
	publish := []string{"publish", "huge", huge, "--format", "raw", "--key-value", "huge", "--content-type", "application/octet-stream"}
	consume := []string{"consume", s.url + layout.FeedPath("huge"), "--into"}
	files, lines := filepath.Join(b.dir, "files"), filepath.Join(b.dir, "lines")
	for _, move := range []struct {
		name   string
		args   []string
		result string // to be removed; "" if the entity is published
		target target // if it is consumed
	}{
		{"publish to the store", append(publish, "--store", "file:"+dir), "", noTarget()},
		{"consume into dir", append(consume, "dir:"+files), files, noTarget()},
		{"consume into jsonl", append(consume, "jsonl:"+lines), lines, atLeastRatio(0.6)},
		{"publish to the server", append(publish, "--to", s.url), "", noTarget()},
	} {
		var stored, synced time.Duration
		if move.result != "" {
			if stored, synced, err = b.download(s.url + layout.FeedPath("huge")); err != nil {
				return err
			}
		}
		p, took, err := b.run(nil, b.feedctl, slices.Clone(move.args)...)
		if err != nil {
			return err
		}
		name := move.name + ", " + b.hugeName()
		megabytes := float64(b.huge) / 1e6
		add := func(other time.Duration, otherName string, t target) {
			b.report.add(name, "MB/s", megabytes/took.Seconds(), megabytes/other.Seconds(), otherName, t)
		}
		b.reportMemory(name, p)
		if move.result == "" {
			add(copied, copyName, move.target)
			continue
		}
		add(stored, downloadName, move.target)
		add(synced, downloadSyncedName, noTarget())
		if err := os.RemoveAll(move.result); err != nil {
			return err
		}
	}
	return nil
}

const (
	downloadName       = "curl > FILE"
	downloadSyncedName = "curl > FILE and fsync"
)

// download returns how long it takes to download URLs to a file, without and with the time to sync
// it. With several URLs, curl -o would keep only the last.
func (b *bench) download(urls string) (stored, synced time.Duration, err error) {
	file, err := os.Create(filepath.Join(b.dir, "download"))
	if err != nil {
		return 0, 0, err
	}
	defer os.Remove(file.Name())
	start := time.Now()
	_, stored, err = b.run(file, "curl", "-sf", urls)
	if err == nil {
		err = file.Sync()
	}
	return stored, time.Since(start), errors.Join(err, file.Close())
}
