package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"
	"unicode/utf8"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/content"
	"github.com/feedctl/feedctl/sink/internal/position"
	"github.com/feedctl/feedctl/sink/patch"
)

func (t *target) Begin(ctx context.Context) error {
	t.conn.SetInterrupt(ctx.Done())
	t.replacing, t.removed = false, 0
	return nil
}

func (t *target) Apply(_ context.Context, e *feed.Entity) error {
	key := e.Key()
	if key == "" {
		return sink.ErrNoKey
	}
	if err := t.beginOnce(); err != nil {
		return err
	}
	if t.replacing {
		if err := t.see(key); err != nil {
			return err
		}
	}
	switch e.Operation {
	case feed.Put, "":
		return t.put(key, e)
	case feed.Delete:
		t.remove.BindText(1, key)
		return run(t.remove)
	case feed.Patch:
		if err := t.patch(key, e); err != nil {
			return &patch.Error{Key: key, ContentID: e.ContentID, Err: err}
		}
		return nil
	}
	return fmt.Errorf("unknown operation %q", e.Operation)
}

// beginOnce begins the transaction at the first change of a batch. Until then, other processes can
// write to the database.
func (t *target) beginOnce() error {
	if t.begun {
		return nil
	}
	if err := run(t.begin); err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	// Only the wait for another process may take long; a later interrupt would roll back the whole
	// batch.
	t.conn.SetInterrupt(nil)
	t.begun = true
	return nil
}

func (t *target) put(key string, e *feed.Entity) error {
	body, stream, size, err := t.body.Read(e)
	if err != nil {
		return err
	}
	if stream != nil {
		return t.putLarge(key, e, stream, size)
	}
	return t.insert(key, e, body)
}

func (t *target) insert(key string, e *feed.Entity, body []byte) error {
	t.headers = content.AppendHeaders(t.headers[:0], e.Header)
	t.upsert.BindText(1, key)
	t.upsert.BindText(2, e.ContentType)
	t.upsert.BindBytes(3, body)
	t.upsert.BindText(4, timestamp(e.LastModified))
	t.upsert.BindText(5, e.ContentID)
	t.upsert.BindText(6, string(t.headers))
	t.upsert.BindBool(7, isText(e.ContentType, body))
	return run(t.upsert)
}

// isText reports whether a body is stored as TEXT. Some of SQLite's functions end a string at NUL.
func isText(contentType string, body []byte) bool {
	return (content.IsJSON(contentType) || content.IsText(contentType)) && utf8.Valid(body) && bytes.IndexByte(body, 0) < 0
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// putLarge inserts a row with room for a body, and writes the body into it piece by piece.
func (t *target) putLarge(key string, e *feed.Entity, stream io.Reader, size int64) error {
	if size < 0 {
		file, n, err := content.Spool(filepath.Dir(t.path), stream, t.limit)
		if err != nil {
			return err
		}
		defer file.Close()
		if n > t.limit {
			return &sink.TooLargeError{Key: key, ContentID: e.ContentID, Size: -1, Limit: t.limit, Of: "an SQLite row"}
		}
		stream, size = file, n
	}
	if size > t.limit {
		return &sink.TooLargeError{Key: key, ContentID: e.ContentID, Size: size, Limit: t.limit, Of: "an SQLite row"}
	}
	row, err := t.insertRow(key, e, size)
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultTooBig {
		return &sink.TooLargeError{Key: key, ContentID: e.ContentID, Size: size, Limit: t.limit, Of: "an SQLite row"}
	}
	if err != nil {
		return err
	}
	blob, err := t.conn.OpenBlob("main", t.table, "body", row, true)
	if err != nil {
		return err
	}
	n, err := blob.ReadFrom(io.LimitReader(stream, size))
	if err == nil {
		err = checkEnd(stream, size, n)
	} else {
		err = fmt.Errorf("copy body, after %d bytes: %w", n, err)
	}
	return errors.Join(err, blob.Close())
}

// checkEnd checks that a stream ends after the n bytes that were read from it.
func checkEnd(stream io.Reader, size, n int64) error {
	more, err := io.Copy(io.Discard, io.LimitReader(stream, 1))
	if err != nil {
		return fmt.Errorf("read body after %d bytes: %w", n, err)
	}
	return content.CheckSize(size, n+more)
}

// insertRow inserts a row with a zero-filled body of size bytes, and returns its
// rowid.
func (t *target) insertRow(key string, e *feed.Entity, size int64) (row int64, err error) {
	if err := t.insert(key, e, nil); err != nil {
		return 0, err
	}
	t.findRow.BindText(1, key)
	if _, err = t.findRow.Step(); err == nil {
		row = t.findRow.ColumnInt64(0)
	}
	if err := errors.Join(err, t.findRow.Reset()); err != nil {
		return 0, err
	}
	t.makeRoom.BindInt64(1, row)
	t.makeRoom.BindInt64(2, size)
	return row, run(t.makeRoom)
}

func (t *target) patch(key string, e *feed.Entity) error {
	change, stream, _, err := t.body.Read(e)
	if err != nil {
		return err
	}
	if stream != nil {
		return patch.ErrTooLarge
	}
	document, err := t.document(key)
	if err != nil {
		return err
	}
	result, err := patch.Apply(document, e.ContentType, change)
	if err != nil {
		return err
	}
	t.update.BindText(1, key)
	t.update.BindBytes(2, result)
	t.update.BindText(3, timestamp(e.LastModified))
	t.update.BindText(4, e.ContentID)
	return run(t.update)
}

// document returns the body of a key. It returns an error if the body is too large to patch.
func (t *target) document(key string) (document []byte, err error) {
	t.read.BindText(1, key)
	t.read.BindInt64(2, patch.MaxSize)
	found, err := t.read.Step()
	if err == nil && !found {
		err = patch.ErrMissing
	}
	if err == nil {
		size := t.read.ColumnInt64(0)
		if size > patch.MaxSize {
			err = patch.ErrTooLarge
		} else {
			document = make([]byte, size)
			t.read.ColumnBytes(1, document)
		}
	}
	return document, errors.Join(err, t.read.Reset())
}

func (t *target) Commit(_ context.Context, at feed.Position) error {
	t.conn.SetInterrupt(nil) // the batch can be committed even if its context has ended
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	if err := t.beginOnce(); err != nil {
		return err
	}
	t.setPosition.BindText(1, t.table)
	t.setPosition.BindText(2, string(text))
	if err := run(t.setPosition); err != nil {
		return err
	}
	if t.noted && at.Tail == nil {
		if err := t.removeNotes(); err != nil {
			return err
		}
	}
	if err := run(t.commit); err != nil {
		return err
	}
	t.begun, t.noted = false, at.Tail != nil
	return nil
}

// Rollback rolls back the transaction, unless an error has already done so.
func (t *target) Rollback(context.Context) error {
	t.conn.SetInterrupt(nil)
	t.begun = false
	if t.conn.AutocommitEnabled() {
		return nil
	}
	return run(t.rollback)
}

// Recover opens the table or, if it is open, rolls back uncommitted changes, and returns the
// position.
func (t *target) Recover(ctx context.Context) (feed.Position, error) {
	var p feed.Position
	if t.conn == nil {
		if err := t.open(ctx); err != nil {
			return p, errors.Join(t.explain(err), t.Close())
		}
	}
	if err := t.Rollback(ctx); err != nil {
		return p, err
	}
	err := sqlitex.Execute(t.conn, position.SQLiteRead, &sqlitex.ExecOptions{
		Args:       []any{t.table},
		ResultFunc: func(row *sqlite.Stmt) error { return json.Unmarshal([]byte(row.ColumnText(0)), &p) },
	})
	if err != nil {
		return p, fmt.Errorf("read position: %w", err)
	}
	t.noted = p.Tail != nil
	return p, nil
}
