package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/patch"
)

func (t *target) patch(ctx context.Context, key string, e *feed.Entity) error {
	if len(t.projections) > 0 && t.document < 0 {
		return errNoDocument
	}
	t.fresh = false
	change, stream, _, err := t.body.Read(e)
	if err != nil {
		return err
	}
	var was current
	if stream != nil {
		err = patch.ErrTooLarge
	} else {
		was, err = t.current(ctx, key)
	}
	var result []byte
	if err == nil {
		result, err = patch.Apply(was.document, e.ContentType, change)
	}
	if len(t.projections) > 0 {
		_, ok := t.last[key]
		if alone := !ok && len(t.spool.entries) > 0 && !t.table.isTextKey(); stream == nil && (ok || alone) {
			t.changes = append(t.changes, changed{len(t.spool.entries), key, e.ContentType, bytes.Clone(change), alone})
			t.unsure = t.unsure || alone
		}
		if isMismatch(err) {
			return t.refuse(key, e, err)
		}
		if err != nil {
			return err
		}
		return t.putDocument(key, e, result)
	}
	if err != nil {
		return err
	}
	t.begin('P', key, e)
	t.spool.field(was.contentType)
	t.spool.field(was.headers)
	t.contents(result, true)
	return t.spool.finish()
}

var errNoDocument = errors.New("PATCH needs a column with the whole document: add one, as in document=:jsonb")

// isMismatch reports whether an error is due to the patch, the document to be patched, or the key.
func isMismatch(err error) bool {
	if _, ok := errors.AsType[*mismatch](err); ok {
		return true
	}
	for _, e := range []error{patch.ErrMissing, patch.ErrContentType, patch.ErrTooLarge, patch.ErrInvalid, patch.ErrNoFit} {
		if errors.Is(err, e) {
			return true
		}
	}
	return refused(err)
}

// A current is the row that a patch changes.
type current struct {
	contentType, headers, document []byte
}

// current returns the row of a key as it is after the entities of the batch so far. It returns an
// error if the document is too large to patch.
func (t *target) current(ctx context.Context, key string) (c current, err error) {
	n, ok := t.last[key]
	if !ok {
		return t.stored(ctx, key)
	}
	e := t.spool.entries[n]
	if e.end-e.start > 2*patch.MaxSize {
		return c, patch.ErrTooLarge
	}
	fields, err := t.spool.read(e)
	if err != nil {
		return c, err
	}
	if fields[1][0] == 'D' {
		return c, patch.ErrMissing
	}
	if t.document >= 0 {
		c.document = fields[t.document]
	} else {
		fields = fields[len(staged):]
		c = current{fields[0], fields[1], fields[2]}
		if c.document == nil {
			c.document = fields[3]
		}
	}
	if len(c.document) > patch.MaxSize {
		return c, patch.ErrTooLarge
	}
	return c, nil
}

// A changed is a patch for a document that an earlier entry of the batch contains. If the server
// rejects that entry, the patch changes the row in the table instead.
type changed struct {
	n           int
	key         string
	contentType string
	change      []byte
	// alone means that no earlier entry has this key, though one may have an equal key in another
	// spelling.
	alone bool
}

// change applies the patch to the row in the table, in the transaction that has merged all earlier
// entries, and replaces the staged row of the patch with the result.
func (t *target) change(ctx context.Context, stage string, c changed) error {
	if err := t.Step(); err != nil {
		return err
	}
	if _, err := t.Writer.Conn.Exec(ctx, "SAVEPOINT feedctl"); err != nil {
		return err
	}
	was, err := t.row(ctx, c.key)
	if isMismatch(err) {
		if _, e := t.Writer.Conn.Exec(ctx, "ROLLBACK TO SAVEPOINT feedctl"); e != nil {
			return e
		}
	} else if err != nil {
		return err
	}
	if _, e := t.Writer.Conn.Exec(ctx, "RELEASE SAVEPOINT feedctl"); e != nil {
		return e
	}
	var document []byte
	if err == nil {
		document, err = patch.Apply(was.document, c.contentType, c.change)
	}
	var texts []*string
	if err == nil {
		texts, err = t.project(document)
	}
	var reason *string
	if err != nil {
		if !isMismatch(err) {
			return err
		}
		text := asText(err.Error())
		reason, texts = &text, make([]*string, len(t.table.contents))
	}
	set, args := []string{"reason = $2"}, []any{c.n, reason}
	for i, text := range texts {
		args = append(args, text)
		set = append(set, fmt.Sprintf("c%d = $%d", i, len(args)))
	}
	_, err = t.Writer.Conn.Exec(ctx, "UPDATE pg_temp."+pgx.Identifier{stage}.Sanitize()+" SET "+strings.Join(set, ", ")+" WHERE n = $1", args...)
	return err
}
