package changes

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/feedctl/feedctl/couchdb"
)

// maxAhead is how many bytes of a response are read ahead of its rows.
const maxAhead = 2 << 20

// An opened is a response whose header has been received.
type opened struct {
	*http.Response
	database // as it was after the feed began
}

// open makes a request.
func (f *Follower) open(ctx context.Context, q couchdb.Request) (o opened, err error) {
	if o.Response, err = f.db.Do(ctx, q); err != nil { //nolint:bodyclose // the caller closes it
		return o, err
	}
	// The server accepts a position of an earlier database without complaint. The instance is
	// requested after the feed began, so it belongs to the database that the feed is from.
	if o.database, err = describe(ctx, f.db); err != nil {
		o.Body.Close()
	}
	return o, err
}

// A next is a request for the rows after those that are being read.
type next struct {
	since  json.RawMessage
	cancel func()
	done   chan struct{} // closed when the rest is set
	opened opened
	err    error
}

// openAhead requests the rows after a position, in the background.
func (f *Follower) openAhead(ctx context.Context, since json.RawMessage, q couchdb.Request) *next {
	ctx, cancel := context.WithCancel(ctx)
	n := &next{since: since, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(n.done)
		n.opened, n.err = f.open(ctx, q)
	}()
	return n
}

// take returns the response that was requested ahead, if it begins at the follower's position.
func (f *Follower) take() *next {
	n := f.next
	if n == nil || f.kind != Normal || f.eager || f.malformed != none || string(n.since) != string(f.since) {
		f.drop()
		return nil
	}
	f.next = nil
	f.stats.Requests++
	<-n.done
	return n
}

// drop abandons the request that was made ahead.
func (f *Follower) drop() {
	n := f.next
	if n == nil {
		return
	}
	f.next = nil
	f.stats.Requests++
	n.cancel()
	<-n.done
	if n.err == nil {
		n.opened.Body.Close()
	}
}

// endOf returns the position at the end of a response, given its last bytes, or nil.
func endOf(tail []byte) json.RawMessage {
	at := bytes.LastIndex(tail, []byte(`"last_seq"`))
	if at < 0 {
		return nil
	}
	var end struct {
		LastSeq json.RawMessage `json:"last_seq"`
	}
	if json.Unmarshal(append([]byte("{"), tail[at:]...), &end) != nil {
		return nil
	}
	return end.LastSeq
}

// maxTail is how many of the last bytes of a response a pump keeps. The last_seq of a cluster with many
// shards has a few thousand bytes.
const maxTail = 64 << 10

// changesMember is in each row, and rarely in a document.
const changesMember = `"changes":`

// A pump reads a response ahead of its reader, so that the server can process the next request while the
// rows of this response are being handled.
type pump struct {
	mu     sync.Mutex
	change sync.Cond
	data   bytes.Buffer // received, but not read by the reader yet
	err    error        // after data
	closed bool
	done   chan struct{} // closed when src is no longer used
}

// newPump returns a pump. If the response is complete, ended is called with its last bytes and the number
// of rows, which may be too high.
func newPump(src io.Reader, ended func(tail []byte, rows int64)) *pump {
	p := &pump{done: make(chan struct{})}
	p.change.L = &p.mu
	go p.run(src, ended)
	return p
}

func (p *pump) run(src io.Reader, ended func(tail []byte, rows int64)) {
	defer close(p.done)
	chunk, tail, rows := make([]byte, 32<<10), make([]byte, 0, 2*maxTail), 0
	for {
		n, err := src.Read(chunk)
		if len(tail)+n > cap(tail) {
			tail = append(tail[:0], tail[len(tail)-maxTail:]...)
		}
		counted := max(len(tail)-len(changesMember)+1, 0)
		tail = append(tail, chunk[:n]...)
		rows += bytes.Count(tail[counted:], []byte(changesMember))
		if err == io.EOF {
			ended(tail, int64(rows))
		}
		p.mu.Lock()
		p.data.Write(chunk[:n])
		p.err = err
		p.change.Broadcast()
		for p.data.Len() > maxAhead && !p.closed {
			p.change.Wait()
		}
		closed := p.closed
		p.mu.Unlock()
		if err != nil || closed {
			return
		}
	}
}

// Read implements [io.Reader].
func (p *pump) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.data.Len() == 0 && p.err == nil {
		p.change.Wait()
	}
	if p.data.Len() == 0 {
		return 0, p.err
	}
	n, _ := p.data.Read(b)
	p.change.Broadcast()
	return n, nil
}

// close waits for the pump to end. Its source must have been closed.
func (p *pump) close() {
	p.mu.Lock()
	p.closed = true
	p.change.Broadcast()
	p.mu.Unlock()
	<-p.done
}
