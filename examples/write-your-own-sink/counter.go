package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
)

// A counter is a sink that counts entities by their media type.
type counter struct {
	file  string
	state state
}

// state is the content of the file: the data and the position that belongs to it.
type state struct {
	Counts   map[string]int `json:"counts"`
	Position feed.Position  `json:"position"`
}

var _ consumer.Sink = (*counter)(nil)

func openCounter(file string) (*counter, error) {
	c := &counter{file: file, state: state{Counts: map[string]int{}}}
	return c, c.load()
}

func (c *counter) load() error {
	data, err := os.ReadFile(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("read %s: %w", c.file, err)
	}
	c.state = s
	return nil
}

// Position reads the file again: after a commit that returned an error, the file says
// whether it took effect.
func (c *counter) Position(context.Context) (feed.Position, error) {
	err := c.load()
	return c.state.Position, err
}

// Begin returns a batch that works on a copy; a rollback drops the copy.
func (c *counter) Begin(context.Context) (consumer.Batch, error) {
	return &batch{sink: c, counts: maps.Clone(c.state.Counts)}, nil
}

func (c *counter) Close() error { return nil }

type batch struct {
	sink   *counter
	counts map[string]int
}

func (b *batch) Apply(_ context.Context, e *feed.Entity) error {
	b.counts[e.ContentType]++
	return nil
}

// Commit writes a new file, syncs it, and renames it over the old file, so a crash leaves either
// the old file or the new one. Then it syncs the directory, so that the rename is durable, too.
func (b *batch) Commit(_ context.Context, at feed.Position) error {
	next := state{Counts: b.counts, Position: at}
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	tmp, err := os.Create(b.sink.file + ".tmp")
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(data, '\n'))
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), b.sink.file); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(b.sink.file))
	if err != nil {
		return err
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return err
	}
	b.sink.state = next
	return nil
}

func (b *batch) Rollback(context.Context) error { return nil }
