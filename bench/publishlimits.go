package main

import (
	"crypto/sha256"
	"hash"
	"os"
	"time"

	"github.com/feedctl/feedctl/input"
)

// parseLines does a part of publishing a file in one goroutine, without a feed or a disk: it parses
// the lines and, if h is not nil, hashes the bodies. It returns entities a second.
func (b *bench) parseLines(name string, h hash.Hash) (float64, error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	start, count := time.Now(), 0
	for e, err := range input.NDJSON(file, input.Options{Key: "/id"}) {
		if err != nil {
			return 0, err
		}
		if h != nil {
			h.Write(e.Body)
		}
		count++
	}
	return float64(count) / time.Since(start).Seconds(), nil
}

// reportParsing adds rows about parts of publishing a file; other is the rate at which the file is
// copied.
func (b *bench) reportParsing(name string, other float64) error {
	for _, part := range []struct {
		name string
		hash hash.Hash
	}{{"only parse", nil}, {"only parse and hash", sha256.New()}} {
		rate, err := b.parseLines(name, part.hash)
		if err != nil {
			return err
		}
		b.report.add("publish 1 KB from a file, "+part.name, "entities/s", rate, other, copyName, noTarget())
	}
	return nil
}
