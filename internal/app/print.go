package app

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
)

// Print writes a result to stdout. With --json, this is v as JSON; otherwise, it is what the given
// function writes.
func (a *App) Print(v any, text func(w io.Writer) error) error {
	a.stopProgress()
	err := error(nil)
	if a.JSON {
		err = writeJSON(a.Out, v)
	} else {
		err = text(a.Out)
	}
	if err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// Printf writes a result to stdout. With --json, this is v as JSON; otherwise, it is the text that
// [fmt.Fprintf] writes.
func (a *App) Printf(v any, format string, args ...any) error {
	return a.Print(v, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format, args...)
		return err
	})
}

// writeJSON writes v as one line of JSON.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// An output is standard output. It keeps the first write error, since cobra does not report whether
// a help text could be written.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// ErrorJSON is the last line that a command with --json prints on standard error if it ends with a
// status other than 0.
type ErrorJSON struct {
	Error      string `json:"error"`
	ExitStatus int    `json:"exitStatus"`
	Hint       string `json:"hint,omitempty"` // what the user can do
}

// printError tells the user why the command ends.
func (a *App) printError(err error) {
	a.Console.Clear()
	hint := exit.Hint(err)
	if a.JSON {
		// If standard error fails, there is nowhere to report that.
		_ = writeJSON(a.Err, ErrorJSON{Error: err.Error(), ExitStatus: exit.Status(err), Hint: hint})
		return
	}
	// Lines after the first are indented, so that no text can pass for another message.
	fmt.Fprintf(a.Err, "feedctl: %s\n", strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "\n  "))
	if hint != "" {
		fmt.Fprintf(a.Err, "Try: %s\n", hint)
	}
}

// printMissing reports that the command waits for a feed that does not exist.
func (a *App) printMissing(feed, question string) {
	a.Console.Clear()
	fmt.Fprintf(a.Err, "feedctl: waiting for feed %q, which does not exist yet%s\n", feed, question)
}

// RequestsJSON is printed on standard error at the end of a command with --json and --verbose,
// before an ErrorJSON.
type RequestsJSON struct {
	Seconds float64 `json:"seconds"` // how long the command took
	// Requests is the number of requests to stores, by operation, including repeated requests. For
	// stores other than S3, it is the number of operations. It is absent if there were none.
	Requests map[string]uint64 `json:"requests,omitempty"`
	// HTTP is the number of other requests over HTTP, by method. It is absent if there were none.
	HTTP map[string]uint64 `json:"http,omitempty"`
}

// printRequests prints, with --verbose, how long the command took and how many requests it made.
func (a *App) printRequests() {
	if !a.verbose {
		return
	}
	a.Console.Clear()
	took := time.Since(a.begun)
	requests := make(map[string]uint64)
	for _, counter := range a.counters {
		for operation, n := range counter.Requests() {
			requests[operation] += n
		}
	}
	sent := a.web.Requests()
	if a.JSON {
		_ = writeJSON(a.Err, RequestsJSON{Seconds: took.Seconds(), Requests: requests, HTTP: sent}) // ignored, as in printError
		return
	}
	fmt.Fprintf(a.Err, "feedctl: took %v%s%s\n", took.Round(time.Millisecond), requestsText(requests, "to the store"), requestsText(sent, "by HTTP"))
}

// requestsText returns a text such as ", 5 requests to the store: GetObject 3, PutObject 2".
func requestsText(requests map[string]uint64, to string) string {
	if len(requests) == 0 {
		return ""
	}
	total := int64(0)
	var each []string
	for _, operation := range slices.Sorted(maps.Keys(requests)) {
		n := int64(requests[operation])
		total += n
		each = append(each, operation+" "+human.Count(n))
	}
	return fmt.Sprintf(", %s %s: %s", human.Plural(total, "request", "requests"), to, strings.Join(each, ", "))
}
