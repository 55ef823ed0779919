package main

import "path/filepath"

// commandMemory measures the peak memory of the commands that read the whole feed of publishLines.
func (b *bench) commandMemory(dir string) error {
	store := "file:" + dir
	feed := store + "#bench"
	table := "sqlite:" + filepath.Join(b.dir, "copy.db")
	for _, command := range []struct {
		name string
		args []string
	}{
		{"verify", []string{"verify", feed}},
		{"snapshot from-feed", []string{"snapshot", "from-feed", "bench", "--store", store}},
		{"digest", []string{"digest", feed}},
		{"copy", []string{"copy", store, "file:" + filepath.Join(b.dir, "replica")}},
		{"consume into SQLite", []string{"consume", feed, "--into", table}},
		{"reconcile", []string{"reconcile", feed, "--into", table}},
		{"doctor", []string{"doctor", store}},
		{"erase", []string{"erase", feed, newEntity(0).Key(), "--yes"}},
	} {
		p, _, err := b.run(nil, b.feedctl, append(command.args, "--log-level", "warn")...)
		if err != nil {
			return err
		}
		b.reportMemory(command.name, p)
	}
	return nil
}
