package locate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
)

// TestWaitForSink: a follower waits for a sink whose server is not available.
func TestWaitForSink(t *testing.T) {
	away := fmt.Errorf("open sink: %w", sink.ErrUnavailable)
	for name, test := range map[string]struct {
		errs   []error
		follow bool
		want   error
		opened int
	}{
		"there":                   {follow: true, opened: 1},
		"comes":                   {errs: []error{away, away, away}, follow: true, opened: 4},
		"not followed":            {errs: []error{away}, want: sink.ErrUnavailable, opened: 1},
		"locked":                  {errs: []error{sink.ErrLocked}, follow: true, want: sink.ErrLocked, opened: 1},
		"available, then refuses": {errs: []error{away, sink.ErrSpec}, follow: true, want: sink.ErrSpec, opened: 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			opened, begun := 0, time.Now()
			_, err := Wait(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), ForSink("couchdb:there", test.follow), func() (consumer.Sink, error) {
				if opened++; opened <= len(test.errs) {
					return nil, test.errs[opened-1]
				}
				return nil, nil
			})
			if !errors.Is(err, test.want) || opened != test.opened {
				t.Errorf("%s: opened %d times: %v", name, opened, err)
			}
			if told := strings.Count(log.String(), "couchdb:there"); told != opened-1 || time.Since(begun) > time.Duration(told)*10*time.Second {
				t.Errorf("%s: after %v the log has %s", name, time.Since(begun), &log)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := Wait(ctx, slog.New(slog.DiscardHandler), ForSink("couchdb:there", true), func() (consumer.Sink, error) { return nil, away })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait returned %v", err)
		}
	})
}

// TestWaitForStore: a follower waits for a store until the follower is stopped; other commands give
// up after a while.
func TestWaitForStore(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	away := func() (int, error) { return 0, storage.ErrUnavailable }
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, err := Wait(t.Context(), log, ForStore("file:a", false), away)
		if took := time.Since(begun); !errors.Is(err, storage.ErrUnavailable) || took < 30*time.Second || took > 32*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		if _, err := Wait(ctx, log, ForStore("file:a", true), away); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait returned %v", err)
		}
	})
}
