package main

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
)

// TestAwait: a sink whose server is away when consume begins is waited for by who follows.
func TestAwait(t *testing.T) {
	away := fmt.Errorf("open sink: %w", sink.ErrUnavailable)
	for name, test := range map[string]struct {
		errs   []error
		follow bool
		want   error
		opened int
	}{
		"there":          {follow: true, opened: 1},
		"comes":          {errs: []error{away, away, away}, follow: true, opened: 4},
		"not followed":   {errs: []error{away}, want: sink.ErrUnavailable, opened: 1},
		"locked":         {errs: []error{sink.ErrLocked}, follow: true, want: sink.ErrLocked, opened: 1},
		"comes, refuses": {errs: []error{away, sink.ErrSpec}, follow: true, want: sink.ErrSpec, opened: 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			a := &app{log: slog.New(slog.NewTextHandler(&log, nil))}
			opened, begun := 0, time.Now()
			_, err := a.await(t.Context(), test.follow, "couchdb:there", func() (consumer.Sink, error) {
				if opened++; opened <= len(test.errs) {
					return nil, test.errs[opened-1]
				}
				return nil, nil
			})
			if !errors.Is(err, test.want) || opened != test.opened {
				t.Errorf("%s: opened %d times: %v", name, opened, err)
			}
			if told := strings.Count(log.String(), "couchdb:there"); told != opened-1 || time.Since(begun) > time.Duration(told)*sinkPause {
				t.Errorf("%s: after %v the log has %s", name, time.Since(begun), &log)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		a := &app{log: slog.New(slog.DiscardHandler)}
		_, err := a.await(ctx, true, "couchdb:there", func() (consumer.Sink, error) { return nil, away })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ends with %v", err)
		}
	})
}
