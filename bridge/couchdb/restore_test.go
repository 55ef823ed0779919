package couchdb

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/storage/memory"
)

// restorable returns a rig whose source can be restored, and a function that saves its state.
func restorable(t *testing.T, real bool) (r *rig, snapshot func() (restore func())) {
	if !real {
		r = newRig(t)
		return r, func() func() { return r.fake.Snapshot(r.url) }
	}
	server := couchtest.StartOwn(t)
	r = &rig{t: t, url: server.NewDB(t), store: memory.New(), dir: t.TempDir(), configure: func(*Config) {}}
	return r, func() func() { return server.Snapshot(t) }
}

// TestRestored: after a source was restored from a backup, later changes are published, even if there
// are as many of them as were lost.
func TestRestored(t *testing.T) {
	t.Parallel()
	for _, real := range []bool{false, true} {
		for name, test := range map[string]struct {
			ran, readOnly bool // before the backup
			warnings      int
		}{
			"after a run":                       {ran: true},
			"before the first run":              {warnings: 1},
			"without a log, with fewer changes": {ran: true, readOnly: true, warnings: 1},
		} {
			if real && test.readOnly {
				continue
			}
			t.Run(fmt.Sprintf("%s, real %v", name, real), func(t *testing.T) {
				t.Parallel()
				r, snapshot := restorable(t, real)
				var log bytes.Buffer
				r.configure = func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) }
				if test.readOnly {
					r.fake.Inject(0, couchtest.On(http.MethodPut, "/_local/"), couchtest.Refuse(http.StatusForbidden, "forbidden", "read only"))
				}
				r.fill(0, 10)
				if test.ran {
					r.run()
				}
				restore := snapshot()
				r.fill(10, 20)
				r.run()
				restore()
				more := 15
				if test.readOnly {
					more = 3
				}
				r.fill(100, 100+more)
				if report := r.run(); report.Published != int64(more) {
					t.Errorf("published %d, want %d: %+v", report.Published, more, report)
				}
				if n := strings.Count(log.String(), "level=WARN"); n != test.warnings {
					t.Errorf("%d warnings:\n%s", n, &log)
				}
				r.fill(200, 202)
				if report := r.run(); report.Published != 2 || report.Rows > 4 {
					t.Errorf("then published %d of %d rows:\n%s", report.Published, report.Rows, &log)
				}
			})
		}
	}
}

// TestRestoredWhileFollowed: later changes are also published if the source is restored while a
// bridge follows it.
func TestRestoredWhileFollowed(t *testing.T) {
	t.Parallel()
	for _, real := range []bool{false, true} {
		for _, readOnly := range []bool{false, true} {
			if real && readOnly {
				continue
			}
			t.Run(fmt.Sprintf("real %v, read only %v", real, readOnly), func(t *testing.T) {
				t.Parallel()
				r, snapshot := restorable(t, real)
				if readOnly {
					r.fake.Inject(0, couchtest.On(http.MethodPut, "/_local/"), couchtest.Refuse(http.StatusForbidden, "forbidden", "read only"))
				}
				r.configure = func(c *Config) { c.Follow = true }
				stop := r.started()
				r.fill(0, 3)
				r.await(3)
				restore := snapshot()
				r.fill(3, 8)
				r.await(8)
				restore()
				r.fill(100, 110)
				r.await(18)
				if _, err := stop(); err == nil || !strings.Contains(err.Error(), "enough") {
					t.Error(err)
				}
			})
		}
	}
}

// TestMovedSource: another database is refused unless Moved is set.
func TestMovedSource(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(0, 3)
	r.run()
	r.url = r.fake.NewDB(t)
	r.fill(0, 5)
	path := r.url[len(r.fake.URL()):]
	r.fake.Inject(0, func(q *http.Request) bool { return q.Method == http.MethodGet && strings.HasPrefix(q.URL.Path, path) }, couchtest.Edit(func(b []byte) []byte {
		return bytes.Replace(b, []byte(`"1700000002"`), []byte(`"1700000001"`), 1) // created in the same second
	}))
	if report, err := r.tryRun(r.store); !errors.Is(err, bridge.ErrForeign) || !strings.Contains(err.Error(), "--moved") || report.Published != 0 {
		t.Errorf("%v, %+v", err, report)
	}
	r.configure = func(c *Config) { c.Moved = true }
	if report := r.run(); report.Published != 2 || report.Repeated != 3 {
		t.Errorf("moved: %+v", report)
	}
	r.configure = func(*Config) {}
	r.fill(5, 6)
	if report := r.run(); report.Published != 1 || report.Rows != 1 {
		t.Errorf("then %+v", report)
	}
	r.check()
}
