// Package accesslog logs the requests that a server has answered.
package accesslog

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/recorded"
)

// An accessLog writes a line for each request that a handler has answered, in the combined log
// format of Apache's httpd. User names, and whatever follows "?" in URLs, are left out, since they
// may be secrets. Other text from the client is quoted as in Go.
type accessLog struct {
	handler http.Handler
	log     *slog.Logger

	mu     sync.Mutex
	w      io.Writer
	failed bool // whether the last line could not be written
}

// Open returns a handler that calls h and appends to the access log with the given name: a file, or
// "-" for stdout. If the name is empty, it returns h itself. A failure to write a line is logged.
func Open(name string, h http.Handler, stdout io.Writer, log *slog.Logger) (logged http.Handler, closeLog func() error, err error) {
	switch name {
	case "":
		return h, func() error { return nil }, nil
	case "-":
		return &accessLog{handler: h, log: log, w: stdout}, func() error { return nil }, nil
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return nil, nil, fmt.Errorf("open access log: %w", err)
	}
	return &accessLog{handler: h, log: log, w: file}, file.Close, nil
}

// ServeHTTP implements [http.Handler].
func (l *accessLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	response := &recorded.Response{ResponseWriter: w}
	defer func() { l.write(line(response, r, begun)) }() // writes the line even if the response was cut off
	l.handler.ServeHTTP(response, r)
}

func (l *accessLog) write(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := io.WriteString(l.w, line)
	if err != nil && !l.failed {
		l.log.Error("cannot write the access log", "error", err)
	}
	l.failed = err != nil
}

// line returns the line for a response.
func line(w *recorded.Response, r *http.Request, begun time.Time) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = "-"
	}
	return fmt.Sprintf("%s - - [%s] %s %d %d %s %s\n", host, begun.Format("02/Jan/2006:15:04:05 -0700"),
		strconv.QuoteToASCII(r.Method+" "+r.URL.EscapedPath()+" "+r.Proto), w.Status(), w.Bytes,
		strconv.QuoteToASCII(plainReferer(r.Referer())), strconv.QuoteToASCII(cmp.Or(r.UserAgent(), "-")))
}

// plainReferer returns a URL without the parts that may be secret.
func plainReferer(referer string) string {
	u, err := url.Parse(referer)
	if err != nil || u.Host == "" {
		return "-"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
