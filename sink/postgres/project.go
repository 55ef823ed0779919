package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonptr"
	"github.com/feedctl/feedctl/sink"
)

// A mismatch is the error for an entity whose values do not fit the columns.
type mismatch struct{ err error }

func (m *mismatch) Error() string { return m.err.Error() }
func (m *mismatch) Unwrap() error { return m.err }

var (
	errNull    = errors.New("the value is null or missing, but the column is not null")
	errNotJSON = errors.New("the body is not JSON, or is nested too deeply")
	errLong    = fmt.Errorf("the body is larger than %d bytes", sink.MaxInline)
)

func (t *target) putColumns(key string, e *feed.Entity) error {
	body, stream, _, err := t.body.Read(e)
	if err != nil {
		return err
	}
	switch {
	case stream != nil:
		return t.refuse(key, e, errLong)
	case !t.isJSON(body):
		return t.refuse(key, e, errNotJSON)
	}
	return t.putDocument(key, e, body)
}

// putDocument stages the values of the columns for a JSON document.
func (t *target) putDocument(key string, e *feed.Entity, document []byte) error {
	texts, err := t.project(document)
	if err != nil {
		return t.refuse(key, e, err)
	}
	t.begin(code(e), key, e)
	for _, text := range texts {
		if text == nil {
			t.spool.null()
		} else {
			t.spool.text(*text)
		}
	}
	return t.spool.finish()
}

// project returns the values of the columns as text for the server; nil is NULL. Any error is a
// *mismatch.
func (t *target) project(document []byte) ([]*string, error) {
	texts := make([]*string, 0, len(t.projections))
	for i := range t.projections {
		p := &t.projections[i]
		if p.field != "" {
			continue
		}
		text, err := p.text(document)
		if err == nil && text == nil && p.notNull {
			err = errNull
		}
		if err != nil {
			return nil, &mismatch{fmt.Errorf("column %s: %w", p.name, err)}
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// code returns the code of the operation in the staging table.
func code(e *feed.Entity) byte {
	if e.Operation == feed.Patch {
		return 'C'
	}
	return 'P'
}

// text returns the value of a column as text for the server; nil is NULL.
func (p *projection) text(document []byte) (*string, error) {
	raw := p.pointer.Raw(document)
	if raw == nil || bytes.Equal(raw, []byte("null")) && p.kind != jsonText {
		return nil, nil
	}
	if p.kind != scalar {
		text := string(raw)
		return &text, nil
	}
	text, err := (jsonptr.Pointer{}).Lookup(raw)
	if errors.Is(err, jsonptr.ErrType) {
		return nil, fmt.Errorf("type %s cannot hold an object or an array", p.typ)
	}
	if err != nil {
		return nil, err
	}
	if strings.IndexByte(text, 0) >= 0 {
		return nil, errors.New("PostgreSQL's types cannot hold U+0000")
	}
	return &text, nil
}

// refuse stages an entity for the quarantine; the row of its key remains unchanged.
func (t *target) refuse(key string, e *feed.Entity, reason error) error {
	if t.strict {
		return &mismatch{fmt.Errorf("the columns cannot hold entity %q with key %q: %w", e.ContentID, key, reason)}
	}
	text := asText(reason.Error())
	t.head(code(e), key, &text, e)
	for range t.table.contents {
		t.spool.null()
	}
	t.kinds.refused++
	return t.spool.finish()
}
