package couchdb

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"

	"github.com/feedctl/feedctl/couchdb"
)

// logPart returns the name of a part of the log.
func (t *target) logPart(n int) string { return fmt.Sprintf("%s-log-%d", t.local(), n) }

// logSuffix matches what logPart appends to the name of a consumer.
var logSuffix = regexp.MustCompile(`-log-[0-9]+$`)

// A part is a document of the log.
type part struct {
	Rev string `json:"_rev,omitempty"`
	// Of is the name of the step, and Packed its writes, compressed with gzip: for each write an
	// object without its document, and then the document. The server stores a string faster than
	// documents.
	Of     string `json:"of,omitempty"`
	Packed []byte `json:"packed,omitempty"`
	// Step and Writes are used by earlier versions, which stop at a log without Step.
	Step   string  `json:"step,omitempty"`
	Writes []write `json:"writes,omitempty"`
}

// pack returns a part with the writes for changes of a step.
func (t *target) pack(step string, changes []*change, revs map[string]string) (part, error) {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return part{}, err
	}
	head := json.NewEncoder(z)
	for _, c := range changes {
		w, err := t.writeOf(c, revs)
		if err != nil {
			return part{}, err
		}
		doc := w.Doc
		w.Doc = nil
		if err := head.Encode(w); err != nil {
			return part{}, err
		}
		if _, err := z.Write(doc); err != nil {
			return part{}, err
		}
	}
	err = z.Close()
	return part{Of: step, Packed: packed.Bytes()}, err
}

// unpack returns the name of the step and the writes.
func (p part) unpack() (step string, writes []write, err error) {
	if p.Of == "" {
		return p.Step, p.Writes, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(p.Packed))
	if err != nil {
		return p.Of, nil, err
	}
	for d := json.NewDecoder(z); ; {
		var w write
		switch err := d.Decode(&w); {
		case err == io.EOF: // the checksum is right
			return p.Of, writes, nil
		case err != nil:
			return p.Of, nil, err
		}
		if err := d.Decode(&w.Doc); err != nil {
			return p.Of, nil, fmt.Errorf("document %q: %w", w.ID, err)
		}
		writes = append(writes, w)
	}
}

// writePart writes a part of the log, replacing an older one.
func (t *target) writePart(ctx context.Context, n int, p part) error {
	for len(t.parts) <= n {
		t.parts = append(t.parts, "")
	}
	p.Rev = t.parts[n]
	rev, err := t.db.PutLocal(ctx, t.logPart(n), p)
	if errors.Is(err, couchdb.ErrConflict) { // written by another run, or an earlier attempt
		var stored part
		if err := t.db.Local(ctx, t.logPart(n), &stored); err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		p.Rev = stored.Rev
		rev, err = t.db.PutLocal(ctx, t.logPart(n), p)
	}
	if err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	t.parts[n] = rev
	return nil
}

func (t *target) readPart(ctx context.Context, n int, step string) ([]write, error) {
	var p part
	if err := t.db.Local(ctx, t.logPart(n), &p); err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	of, writes, err := p.unpack()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read log: _local/%s: %w", t.logPart(n), err)
	case of != step:
		return nil, fmt.Errorf("read log: _local/%s is of step %q, not %q: it was changed by another client", t.logPart(n), of, step)
	}
	return writes, nil
}

// clean removes the log if it is no longer needed. Failures do not matter: the next
// log replaces it.
func (t *target) clean() {
	if len(t.parts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if t.load(ctx) != nil || t.state.Pending != nil {
		return // the log is needed, or not this sink's
	}
	for n, rev := range t.parts {
		err := t.db.JSON(ctx, couchdb.Request{
			Method: http.MethodDelete,
			Path:   couchdb.DocPath("_local/" + t.logPart(n)),
			Query:  url.Values{"rev": {rev}},
			Once:   true,
		}, nil)
		if err != nil {
			t.log.Debug("log cannot be removed", "database", t.db.URL(), "error", err)
			return
		}
	}
}
