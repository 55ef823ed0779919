// Package against compares the state of a feed with the database that it was made from, or with the
// copy that a sink made of it: which keys there are, in which version and, on request, with which bodies.
//
// A database is taken for a copy if a sink keeps a position for it, or if one of its items has the Content-ID that
// the feed has for the item's key, but not if one of its items has the version that the feed has for the key. In a
// copy, versions are Content-IDs. Kinto records, which a sink copies as they are, have no Content-IDs, so their
// bodies are compared.
//
// Memory use is constant. The feed and the database are tables in a temporary file, which takes about 170 bytes for
// each key on either side, and the space for the bodies if these are compared.
package against

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/backoff"
	kintosink "github.com/feedctl/feedctl/sink/kinto"
)

var (
	// ErrChanged means that a source changed while it was being listed.
	ErrChanged = errors.New("source has changed")
	// ErrNoVersion means that a copy can be compared only with [Config.Deep].
	ErrNoVersion = errors.New("the collection is a copy made by a sink, and has no Content-ID for this key, so only the bodies show whether it is equal")
)

// An Item is the state of a key in a source.
type Item struct {
	Key     string
	Version string // the same as in the ETag field of the feed's entities
	Body    []byte // JSON; nil if bodies are not compared
	// Deleted means that the source no longer has the key, although it was listed before.
	Deleted bool
	// Copy describes the entity of which the item says that it is a copy, if any. Copy.Body is not used.
	Copy kintosink.Copy
}

// A Source is the database that a feed was made from.
type Source interface {
	// State identifies the current state of the source. It is different after each change.
	State(ctx context.Context) (string, error)
	// IsTarget reports whether a sink keeps a position for the source.
	IsTarget(ctx context.Context) (bool, error)
	// List calls add for each item that the source has in the given state, in any order. An item that is added again
	// replaces the earlier one. The source does not keep the items. The error matches [ErrChanged] if the source is
	// no longer in that state.
	List(ctx context.Context, state string, bodies bool, add func(Item) error) error
	// Covers reports whether entities with the given key are items of the source. A feed may have other entities,
	// such as files that belong to an item; a copy has items for these, too.
	Covers(key string) bool
}

// Config configures a comparison.
type Config struct {
	Source Source
	// Client reads the feed at URL; it must not follow. Feed, if not empty, identifies the feed instead of URL, as in
	// [consumer.Job].
	Client    *consumer.Client
	URL, Feed string
	From      consumer.Start
	// Deep makes the comparison include the bodies, as JSON values.
	Deep bool
	Log  *slog.Logger
}

// A Report is the result of a comparison.
type Report struct {
	// State is the state of the source.
	State string `json:"state"`
	// Copy reports whether the source is a copy of the feed, made by a sink.
	Copy bool `json:"copy,omitempty"`
	// Items is how many items the source has, and Keys how many of them the feed has.
	Items int64 `json:"items"`
	Keys  int64 `json:"keys"`
	// Differences holds at most a thousand differences, in the order of their keys; Omitted counts the others.
	Differences []Difference `json:"differences"`
	Omitted     int64        `json:"omitted,omitempty"`
	// Changing reports whether the source changed during each attempt. If so, a difference may be due to a change
	// that the feed did not have yet, or to one that the source had after it was listed.
	Changing bool `json:"changing,omitempty"`
}

// Count returns the number of differences.
func (r *Report) Count() int64 { return int64(len(r.Differences)) + r.Omitted }

// maxDifferences is the maximum number of differences that are listed.
const maxDifferences = 1000

func (r *Report) add(d Difference) {
	d.copy = r.Copy
	if len(r.Differences) == maxDifferences {
		r.Omitted++
		return
	}
	r.Differences = append(r.Differences, d)
}

// A Difference is a key for which the feed and the source differ.
type Difference struct {
	Key string `json:"key"`
	// Kind is "missing" if the feed does not have the key, "extra" if the source does not, "version"
	// if the versions differ, and "body" if only the bodies do.
	Kind string `json:"kind"`
	// Feed and Source are the versions.
	Feed   string `json:"feed,omitempty"`
	Source string `json:"source,omitempty"`

	copy bool // whether the source is a copy
}

func (d Difference) String() string {
	source := "source"
	if d.copy {
		source = "copy"
	}
	switch d.Kind {
	case missing:
		return fmt.Sprintf("missing: the feed does not have %q, which the %s has%s", d.Key, source, inVersion(d.Source))
	case extra:
		return fmt.Sprintf("extra: the feed has %q%s, which the %s does not have", d.Key, inVersion(d.Feed), source)
	case version:
		return fmt.Sprintf("version: the feed has %q%s, the %s%s", d.Key, inVersion(d.Feed), source, inVersion(d.Source))
	}
	return fmt.Sprintf("body: the bodies of %q%s differ", d.Key, inVersion(d.Feed))
}

// inVersion returns " in version " and v. It returns "" if v is empty, as for rows of tables, which have no versions.
func inVersion(v string) string {
	if v == "" {
		return ""
	}
	return " in version " + v
}

// Kinds of differences.
const (
	missing = "missing"
	extra   = "extra"
	version = "version"
	body    = "body"
)

const (
	// attempts is the maximum number of times that a source that keeps changing is listed.
	attempts = 8
	// listAttempts is the maximum number of times that a list is requested if it arrives incomplete.
	listAttempts = 6
)

// pause waits before the next attempt.
func pause(ctx context.Context, attempt int) error {
	return backoff.Sleep(ctx, backoff.Backoff{Min: time.Second, Max: 30 * time.Second}.After(attempt))
}

// Compare compares the state of a feed, up to its present end, with a source. If the source changes meanwhile,
// Compare lists it again and reads the feed to its new end. The error matches [ErrChanged] if the source changed each
// time while it was being listed.
func Compare(ctx context.Context, c Config) (_ *Report, err error) {
	dir, err := os.MkdirTemp("", "feedctl-verify-")
	if err != nil {
		return nil, fmt.Errorf("compare with source: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t, err := openTables(ctx, filepath.Join(dir, "state.db"), c.Deep)
	if err != nil {
		return nil, fmt.Errorf("compare with source: %w", err)
	}
	defer func() { err = errors.Join(err, t.close()) }()
	for attempt := 1; ; attempt++ {
		report, err := compare(ctx, c, t)
		switch {
		case err != nil && !errors.Is(err, ErrChanged):
			return nil, fmt.Errorf("compare with source: %w", err)
		case err == nil && (report.Count() == 0 || !report.Changing), err == nil && attempt == attempts:
			return report, nil
		case attempt == attempts:
			return nil, fmt.Errorf("compare with source: after %d attempts: %w: stop its writers until it has been listed", attempts, err)
		}
		c.Log.Info("source has changed, comparing again", "attempt", attempt)
		if err := pause(ctx, attempt); err != nil {
			return nil, fmt.Errorf("compare with source: %w", err)
		}
	}
}

// compare makes one attempt. It reads the feed after it has listed the source, which gives a bridge that follows the
// source time to publish the state that was listed.
func compare(ctx context.Context, c Config, t *tables) (*Report, error) {
	state, err := c.Source.State(ctx)
	if err != nil {
		return nil, err
	}
	target, err := c.Source.IsTarget(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.list(ctx, c.Source, state); err != nil {
		return nil, err
	}
	job := consumer.Job{Client: c.Client, URL: c.URL, Feed: c.Feed, Sink: t.sink, From: c.From, Logger: c.Log}
	if _, err := job.Run(ctx); err != nil {
		return nil, err
	}
	report := &Report{State: state, Differences: []Difference{}}
	if report.Copy, err = t.findCopy(target); err != nil {
		return nil, err
	}
	if err := t.diff(ctx, c.Source.Covers, report); err != nil || report.Count() == 0 {
		return report, err
	}
	now, err := c.Source.State(ctx)
	report.Changing = now != state
	return report, err
}
