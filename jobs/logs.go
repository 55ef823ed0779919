package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// keepLines is how many lines of a job's log are kept.
const keepLines = 200

// A LogLine is a warning or an error that a run has logged. Its time is that of the node's clock.
type LogLine struct {
	Number  int64             `json:"number"` // grows with each line of the job
	Time    time.Time         `json:"time"`
	Level   string            `json:"level"` // "WARN" or "ERROR"
	Run     int64             `json:"run"`   // epoch of the job
	Node    string            `json:"node"`
	Message string            `json:"message"`
	Attrs   map[string]string `json:"attrs,omitempty"`
}

// Logs returns the lines of a job's log whose numbers exceed the given one, oldest first. The last 200 lines are kept.
func (s *Scheduler) Logs(ctx context.Context, id string, after int64) (lines []LogLine, err error) {
	err = s.db.View(ctx, func(tx jobdb.Tx) error {
		lines = []LogLine{}
		var one int
		found, err := jobdb.One(ctx, tx, "SELECT 1 FROM @job WHERE id = $1", []any{id}, &one)
		if err == nil && !found {
			err = ErrNoJob
		}
		if err != nil {
			return err
		}
		const sql = "SELECT number, at, level, run, node, message, attrs FROM @log WHERE job = $1 AND number > $2 ORDER BY number"
		return jobdb.Each(ctx, tx, sql, []any{id, after}, func(scan func(...any) error) error {
			var l LogLine
			var at int64
			var attrs string
			if err := scan(&l.Number, &at, &l.Level, &l.Run, &l.Node, &l.Message, &attrs); err != nil {
				return err
			}
			l.Time = fromMicros(at)
			lines = append(lines, l)
			return json.Unmarshal([]byte(attrs), &lines[len(lines)-1].Attrs)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read logs of job %s: %w", id, err)
	}
	return lines, nil
}

// writeLog adds lines to the log of a job, unless the job was deleted.
func (s *Scheduler) writeLog(ctx context.Context, job string, lines []LogLine) error {
	if len(lines) == 0 {
		return nil
	}
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		var number int64
		var one int
		if found, err := jobdb.One(ctx, tx, "SELECT 1 FROM @job WHERE id = $1 @lock", []any{job}, &one); err != nil || !found {
			return err
		}
		if _, err := jobdb.One(ctx, tx, "SELECT coalesce(max(number), 0) FROM @log WHERE job = $1", []any{job}, &number); err != nil {
			return err
		}
		for _, l := range lines {
			number++
			attrs, err := json.Marshal(l.Attrs)
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, "INSERT INTO @log (job, number, at, level, run, node, message, attrs) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
				job, number, micros(l.Time), l.Level, l.Run, l.Node, l.Message, string(attrs))
			if err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "DELETE FROM @log WHERE job = $1 AND number <= $2", job, number-keepLines)
		return err
	})
	if err != nil {
		return fmt.Errorf("write log of job %s: %w", job, err)
	}
	return nil
}

// A runLog holds the lines of a run that are not in the database yet.
type runLog struct {
	run  int64
	node string

	mu    sync.Mutex
	lines []LogLine
}

func (l *runLog) add(line LogLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line.Run, line.Node = l.run, l.node
	if len(l.lines) == keepLines {
		l.lines = l.lines[1:]
	}
	l.lines = append(l.lines, line)
}

// take removes the lines and returns them.
func (l *runLog) take() []LogLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

// A logHandler is the log handler of a run: it passes records on, and also adds warnings and errors to the log of the
// run.
type logHandler struct {
	slog.Handler
	log    *runLog
	attrs  []slog.Attr // the attributes of the run, with the names of their groups
	groups string      // "a.b."
}

// Enabled implements [slog.Handler].
func (h *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.Handler.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		line := LogLine{Time: r.Time, Level: r.Level.String(), Message: clean(r.Message), Attrs: map[string]string{}}
		for _, a := range h.attrs {
			line.add("", a)
		}
		r.Attrs(func(a slog.Attr) bool {
			line.add(h.groups, a)
			return true
		})
		h.log.add(line)
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	all := append([]slog.Attr(nil), h.attrs...)
	for _, a := range attrs {
		a.Key = h.groups + a.Key
		all = append(all, a)
	}
	return &logHandler{h.Handler.WithAttrs(attrs), h.log, all, h.groups}
}

// WithGroup implements [slog.Handler].
func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.Handler.WithGroup(name), h.log, h.attrs, h.groups + name + "."}
}

// add adds an attribute, or all attributes of a group.
func (l *LogLine) add(groups string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() != slog.KindGroup {
		l.Attrs[clean(groups+a.Key)] = clean(v.String())
		return
	}
	if a.Key != "" {
		groups += a.Key + "."
	}
	for _, inner := range v.Group() {
		l.add(groups, inner)
	}
}

// maxText is how many bytes of a string in a log are kept.
const maxText = 4096

// clean returns a string that all databases can store.
func clean(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text[:min(len(text), maxText)], "\x00", "�"), "�")
}

// isStorable reports whether all databases can store a string.
func isStorable(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

const (
	logLimit = 10 * time.Second
	logPause = 200 * time.Millisecond
)

// writeLog writes the lines that a run has logged. Lines that it cannot write are only in the log of the node.
func (w *worker) writeLog(ctx context.Context, job string, log *runLog) {
	lines := log.take()
	w.logged(job, within(ctx, logLimit, func(ctx context.Context) error { return w.store.writeLog(ctx, job, lines) }))
}

// writeLastLog writes the remaining lines when the run has ended. It waits for a while if the database is
// unavailable, such as during a restart.
func (w *worker) writeLastLog(ctx context.Context, job string, log *runLog) {
	lines := log.take()
	w.logged(job, within(context.WithoutCancel(ctx), logLimit, func(ctx context.Context) error {
		for {
			err := w.store.writeLog(ctx, job, lines)
			if !jobdb.Passes(err) {
				return err
			}
			select {
			case <-time.After(logPause):
			case <-ctx.Done():
				return err
			}
		}
	}))
}

func (w *worker) logged(job string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		w.config.Logger.Warn("lines are missing from the log of a job", "job", job, "error", err)
	}
}
