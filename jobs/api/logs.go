package api

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/jobs"
)

const (
	// followEvery is how often a request that follows a log reads the database.
	followEvery = time.Second
	// beatEvery is how often such a request sends an empty line, so that a disconnected client is
	// noticed.
	beatEvery = 15 * time.Second
	writeTime = 30 * time.Second
	// maxFollowers is how many requests may follow logs at the same time. Each of them costs a
	// transaction a second.
	maxFollowers = 100
)

// logLines is the answer with the last lines of a job's log.
type logLines struct {
	Lines []jobs.LogLine `json:"lines"` // oldest first
}

func (a *API) getLogs(w http.ResponseWriter, r *http.Request) error {
	p := query(r)
	after, follow := int64(p.number("after", 0)), p.yes("follow")
	if p.err != nil {
		return p.err
	}
	if follow && r.Method == http.MethodGet {
		return a.followLogs(w, r, after)
	}
	return bounded(func(w http.ResponseWriter, r *http.Request) error {
		lines, err := a.jobs.Logs(r.Context(), id(r), after)
		if err != nil {
			return err
		}
		return answer(w, http.StatusOK, logLines{lines})
	})(w, r)
}

// followLogs sends each line as a JSON object, until the client disconnects, the server stops
// or the job is deleted.
func (a *API) followLogs(w http.ResponseWriter, r *http.Request, after int64) error {
	defer a.followers.Add(-1)
	if a.followers.Add(1) > maxFollowers {
		w.Header().Set("Retry-After", "10")
		return problem.New(http.StatusServiceUnavailable, "too-many", "%d clients are already following logs", maxFollowers)
	}
	lines, err := a.jobs.Logs(r.Context(), id(r), after)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	control := http.NewResponseController(w)
	encoder := json.NewEncoder(w)
	timer := time.NewTimer(followEvery)
	defer timer.Stop()
	var sent time.Time
	for {
		_ = control.SetWriteDeadline(time.Now().Add(writeTime)) // in tests, a writer may not support deadlines
		for n := range lines {
			if err := encoder.Encode(&lines[n]); err != nil {
				return nil //nolint:nilerr // the client has disconnected
			}
			after = lines[n].Number
		}
		if len(lines) == 0 && time.Since(sent) > beatEvery {
			_, err = io.WriteString(w, "\n")
		}
		if len(lines) > 0 || time.Since(sent) > beatEvery {
			if err := errors.Join(err, control.Flush()); err != nil {
				return nil //nolint:nilerr // the client has disconnected
			}
			sent = time.Now()
		}
		timer.Reset(followEvery)
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return nil
		case <-a.closing:
			return nil
		}
		if lines, err = a.jobs.Logs(r.Context(), id(r), after); errors.Is(err, jobs.ErrNoJob) || r.Context().Err() != nil {
			return nil
		} else if err != nil && !jobs.Unavailable(err) {
			a.cutOff(r, err)
		}
	}
}

// A begunWriter records whether an answer has begun.
type begunWriter struct {
	io.Writer
	begun bool
}

func (w *begunWriter) Write(p []byte) (int, error) {
	w.begun = true
	return w.Writer.Write(p)
}

// stream sends an answer whose body is written by the given function. If the function fails after the answer has
// begun, the answer is cut off.
func (a *API) stream(w http.ResponseWriter, r *http.Request, media string, write func(io.Writer) error) error {
	w.Header().Set("Content-Type", media)
	begun := &begunWriter{Writer: w}
	err := write(begun)
	if err == nil || !begun.begun {
		return err
	}
	a.cutOff(r, err)
	return nil
}

// cutOff ends an answer that has begun so that the client notices that it is incomplete.
func (a *API) cutOff(r *http.Request, err error) {
	if r.Context().Err() == nil {
		a.log.LogAttrs(r.Context(), slog.LevelError, "response was cut off", slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	panic(http.ErrAbortHandler)
}
