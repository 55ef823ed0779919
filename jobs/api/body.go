package api

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"

	"github.com/feedctl/feedctl/internal/problem"
)

// The largest bodies, in bytes.
const (
	maxJob  = 64 << 10
	maxJobs = 8 << 20 // 10,000 jobs take about 3 MiB
)

// body reads the body of a request, which is JSON.
func body(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if t := r.Header.Get("Content-Type"); t != "" {
		if media, _, err := mime.ParseMediaType(t); err != nil || media != "application/json" {
			return nil, problem.New(http.StatusUnsupportedMediaType, "media-type", "Content-Type is %.100q: send application/json", t)
		}
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if _, ok := errors.AsType[*http.MaxBytesError](err); err == nil || ok {
		return text, err
	}
	p := problem.New(http.StatusBadRequest, "incomplete", "the body ended early")
	if errors.Is(err, os.ErrDeadlineExceeded) {
		p = problem.New(http.StatusRequestTimeout, "timeout", "the body arrived too slowly")
	}
	p.Cause = err
	return nil, p
}

// word reads a body that must be one of the given words, as a JSON string.
func word(w http.ResponseWriter, r *http.Request, words ...string) (string, error) {
	text, err := body(w, r, maxJob)
	if err != nil {
		return "", err
	}
	var got string
	if err := json.Unmarshal(text, &got); err == nil && slices.Contains(words, got) {
		return got, nil
	}
	return "", problem.New(http.StatusBadRequest, "invalid-request", "the body is %.100q: want one of %q, as JSON", text, words)
}
