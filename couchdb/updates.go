package couchdb

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"
)

// An Update reports that a database was created, updated or deleted.
type Update struct {
	Name string          `json:"db_name"`
	Type string          `json:"type"` // "created", "updated" or "deleted"
	Seq  json.RawMessage `json:"seq"`  // the position after this update: opaque JSON
}

const (
	updatesPath = "/_db_updates"
	// updatesBeat is the interval of heartbeats. It is so short that the response, which begins
	// with the first heartbeat, is not late even if CouchDB skips every other one.
	updatesBeat = 4 * time.Second
	// maxUpdate is the maximum size of a line of the response, in bytes. Sequences grow with the
	// number of shards.
	maxUpdate = 1 << 20
)

// LastUpdate returns the position after all updates so far. Only a server admin may make this
// request, and the database _global_changes must exist (CouchDB documentation, "/_db_updates");
// otherwise, the error matches [ErrUnauthorized] or [ErrUnsupported].
func (h *Host) LastUpdate(ctx context.Context) (json.RawMessage, error) {
	var answer struct {
		Seq json.RawMessage `json:"last_seq"`
	}
	q := Request{Path: updatesPath, Query: url.Values{"since": {"now"}}}
	if err := h.db.JSON(ctx, q, &answer); err != nil {
		return nil, orUnsupported(err)
	}
	if len(answer.Seq) == 0 { // CouchDB 1 has no positions
		return nil, fmt.Errorf("%s: %w: no last_seq", h.db.what(q), ErrUnsupported)
	}
	return answer.Seq, nil
}

// Updates calls f with the updates after a position, as soon as the server reports them, until ctx
// or the response ends. It returns the position from which to continue, which is after the last
// update passed to f. The error is nil if the server ended the response properly.
//
// CouchDB reports each database at most once in half a second, and does not guarantee to report
// every update, since it does not check whether it has recorded it. If the position is from another
// server, the response begins with the first update.
func (h *Host) Updates(ctx context.Context, since json.RawMessage, f func([]Update) error) (json.RawMessage, error) {
	query := url.Values{"feed": {"continuous"}, "heartbeat": {strconv.FormatInt(updatesBeat.Milliseconds(), 10)}, "since": {textOf(since)}}
	resp, err := h.db.Do(ctx, Request{Path: updatesPath, Query: query})
	if err != nil {
		return since, orUnsupported(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	for {
		some, end, err := readUpdates(lines)
		if len(some) > 0 {
			if err := f(some); err != nil {
				return since, err
			}
			since = some[len(some)-1].Seq
		}
		switch {
		case err == io.EOF:
			return since, nil
		case errors.Is(err, ErrMalformed):
			return since, fmt.Errorf("GET %s: %w", h.db.root+updatesPath, err)
		case err != nil:
			return since, err
		case end != nil:
			return end, nil
		}
	}
}

// readUpdates reads one line, and the lines after it that have already arrived. The result end is
// the position in the last line of a response, or nil.
func readUpdates(lines *bufio.Reader) (some []Update, end json.RawMessage, err error) {
	for {
		line, err := readLine(lines)
		if err != nil {
			return some, nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 { // no heartbeat
			var u struct {
				Update
				LastSeq json.RawMessage `json:"last_seq"`
			}
			if err := json.Unmarshal(line, &u); err != nil {
				return some, nil, fmt.Errorf("%w: %w", ErrMalformed, err)
			}
			if u.LastSeq != nil {
				return some, u.LastSeq, nil
			}
			if u.Name == "" || len(u.Seq) == 0 {
				return some, nil, fmt.Errorf("%w: update without db_name or seq: %.100s", ErrMalformed, line)
			}
			some = append(some, u.Update)
		}
		ahead, _ := lines.Peek(lines.Buffered()) // peeking at buffered bytes does not fail
		if !bytes.Contains(ahead, []byte("\n")) {
			return some, nil, nil
		}
	}
}

// readLine reads a line. Bytes after the last newline of a response are ignored.
func readLine(lines *bufio.Reader) (line []byte, err error) {
	for {
		piece, err := lines.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull {
			return nil, err
		}
		line = append(line, piece...)
		if err == nil {
			return line, nil
		}
		if len(line) > maxUpdate {
			return nil, fmt.Errorf("%w: line of more than %d bytes", ErrMalformed, maxUpdate)
		}
	}
}
