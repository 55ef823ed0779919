package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonptr"
	"github.com/feedctl/feedctl/internal/jsonscan"
)

// DefaultMaxLine is the longest line of [NDJSON], in bytes.
const DefaultMaxLine = 8 << 20

// LengthyLine is the length in bytes beyond which Options.Lengthy is called.
const LengthyLine = 1 << 20

// ErrLineTooLong means that a line is longer than MaxLine.
var ErrLineTooLong = errors.New("line exceeds the limit")

// Options configure how [NDJSON] interprets lines. Pointers are JSON Pointers
// (RFC 6901) to a string, a number or a boolean; "" means none.
type Options struct {
	// Key points to the key, which must be in every line and not empty.
	Key string
	// Operation is the operation of all lines; "" means PUT.
	Operation feed.Operation
	// OperationField points to the operation of a line (PUT, PATCH or DELETE, in upper or lower
	// case). A line without the field has Operation.
	OperationField string
	// ContentType is the media type of all lines; "" means application/json.
	ContentType string
	// ContentID points to the Content-ID, which must be in every line. With it, publishing the same
	// input again has no effect.
	ContentID string
	// MaxLine is the maximum length of a line, in bytes; 0 means DefaultMaxLine.
	MaxLine int
	// Lengthy, if set, is called when a line is longer than LengthyLine, before the rest of
	// it is read. A program that reads several inputs concurrently can use it to make them take
	// turns. If it returns an error, reading ends with that error.
	Lengthy func() error
}

// NDJSON yields one entity for each line of r, which must be JSON. The body is the
// unchanged line without its line break. Empty lines are skipped, and so is a byte
// order mark at the start, as RFC 8259, section 8.1, allows.
func NDJSON(r io.Reader, o Options) iter.Seq2[*feed.Entity, error] {
	return func(yield func(*feed.Entity, error) bool) {
		p, err := o.compile()
		if err != nil {
			yield(nil, &Error{Where: "options", Err: invalid(err)})
			return
		}
		lines := lineReader{r: r, max: o.MaxLine, lengthy: o.Lengthy}
		if lines.max == 0 {
			lines.max = DefaultMaxLine
		}
		for n := 1; ; n++ {
			line, err := lines.next()
			if err == io.EOF {
				return
			}
			if n == 1 {
				line = bytes.TrimPrefix(line, []byte("\ufeff"))
			}
			var e *feed.Entity
			switch {
			case err != nil:
			case len(bytes.TrimSpace(line)) == 0:
				continue
			default:
				e, err = p.entity(line)
			}
			if err != nil {
				yield(nil, &Error{Where: fmt.Sprintf("line %d", n), Err: err})
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// A program is Options with compiled pointers; a pointer that is not set is nil.
type program struct {
	key, operationField, contentID *jsonptr.Pointer
	operation                      feed.Operation
	contentType                    string
}

func (o Options) compile() (*program, error) {
	p := &program{operation: o.Operation, contentType: o.ContentType}
	if p.operation == "" {
		p.operation = feed.Put
	}
	if p.contentType == "" {
		p.contentType = "application/json"
	}
	for _, pointer := range []struct {
		text string
		at   **jsonptr.Pointer
	}{{o.Key, &p.key}, {o.OperationField, &p.operationField}, {o.ContentID, &p.contentID}} {
		if pointer.text == "" {
			continue
		}
		compiled, err := jsonptr.Compile(pointer.text)
		if err != nil {
			return nil, err
		}
		*pointer.at = &compiled
	}
	return p, nil
}

// entity returns the entity of a line. It retains line as the body.
func (p *program) entity(line []byte) (*feed.Entity, error) {
	if !jsonscan.Valid(line) {
		return nil, invalid(explainJSON(line))
	}
	e := &feed.Entity{Operation: p.operation, ContentType: p.contentType, Body: line}
	if p.key != nil {
		key, err := lookup(p.key, line)
		if err != nil {
			return nil, invalid(fmt.Errorf("find the key: %w", err))
		}
		e.ContentLocation = feed.EncodeKey(key)
	}
	if p.contentID != nil {
		id, err := lookup(p.contentID, line)
		if err != nil {
			return nil, invalid(fmt.Errorf("find the Content-ID: %w", err))
		}
		e.ContentID = id
	}
	if p.operationField != nil {
		name, err := p.operationField.Lookup(line)
		if err == nil {
			if e.Operation, err = feed.ParseOperation(name); err != nil {
				err = fmt.Errorf("%q is not one of PUT, PATCH, DELETE", name)
			}
		}
		if err != nil && !errors.Is(err, jsonptr.ErrNotFound) {
			return nil, invalid(fmt.Errorf("find the operation: %w", err))
		}
	}
	return e, complete(e)
}

// explainJSON returns an error with the offset at which a line is not JSON, counted from 1.
func explainJSON(line []byte) error {
	var discard json.RawMessage
	err := json.Unmarshal(line, &discard)
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return jsonptr.ErrJSON
	}
	return fmt.Errorf("%w: byte %d: %w", jsonptr.ErrJSON, syntax.Offset, err)
}

func lookup(p *jsonptr.Pointer, line []byte) (string, error) {
	text, err := p.Lookup(line)
	if err == nil && text == "" {
		err = fmt.Errorf("look up %q: it is empty", p.Text())
	}
	return text, err
}
