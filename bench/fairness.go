package main

import (
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// fairness makes many processes publish to one feed at the same time, on each kind of store, with
// equal work. No process may have to wait until the others are done, and together they must not be
// much slower than with a separate feed for each, when they share only the store.
func (b *bench) fairness() (err error) {
	publishers, lines := max(20/b.part, 4), max(20_000/b.part, 1)
	input, remove, err := b.linesFile(lines)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	endpoint, stop, err := b.startS3()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	server, database, err := startPostgres()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	for _, store := range []struct{ name, url string }{
		{"file", "file:" + filepath.Join(b.dir, "shared")},
		{"S3", fmt.Sprintf("s3://%s/shared?region=us-east-1&path_style=true&endpoint=%s", s3Bucket, url.QueryEscape(endpoint))},
		{"PostgreSQL", database},
	} {
		if err := b.fairnessIn(store.name, store.url, input, publishers, lines); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) fairnessIn(name, store, input string, publishers, lines int) error {
	one, own := make([]string, publishers), make([]string, publishers)
	for n := range publishers {
		one[n], own[n] = "one", fmt.Sprintf("own-%d", n)
	}
	apart, err := b.publishTogether(store, input, own)
	if err != nil {
		return err
	}
	ends, err := b.publishTogether(store, input, one)
	if err != nil {
		return err
	}
	first, last := slices.Min(ends), slices.Max(ends)
	rate := func(took time.Duration) float64 { return float64(publishers*lines) / took.Seconds() }
	name = fmt.Sprintf("%d publishers on a feed, %s", publishers, name)
	b.report.add(name, "s until the last ends", last.Seconds(), first.Seconds(), "until the first ends", atMostRatio(1.5))
	b.report.add(name, "entities/s", rate(last), rate(slices.Max(apart)), "each on its own feed", atLeastRatio(0.5))
	return nil
}

// publishTogether publishes the input to all of the feeds at the same time, with one process for
// each, and returns how long each process took.
func (b *bench) publishTogether(store, input string, feeds []string) ([]time.Duration, error) {
	took, errs := make([]time.Duration, len(feeds)), make([]error, len(feeds))
	var group sync.WaitGroup
	start := time.Now()
	for n, feed := range feeds {
		group.Go(func() {
			_, errs[n] = exec.CommandContext(b.ctx, b.feedctl, "publish", feed, input, "--key", "/id", "--store", store).Output()
			took[n] = time.Since(start)
		})
	}
	group.Wait()
	for n, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("publish to feed %s: %w", feeds[n], explain(err))
		}
	}
	return took, nil
}
