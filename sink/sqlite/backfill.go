package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink/internal/position"
)

// notes holds the prepared statements on the table of notes.
type notes struct {
	recall, note, held, release *sqlite.Stmt
}

// recallNote reads what is stored for a key in the table %s and in the table of notes.
const recallNote = `SELECT EXISTS (SELECT 1 FROM "%s" WHERE key = ?2) OR EXISTS (SELECT 1 FROM feedctl_notes WHERE name = ?1 AND key = ?2 AND n = 0),
	(SELECT count(*) FROM feedctl_notes WHERE name = ?1 AND key = ?2 AND n <> 0)`

// BeginBackfill creates the table of notes on the first call.
func (t *target) BeginBackfill(context.Context) error {
	if t.notes.recall != nil {
		t.noted = true
		return nil
	}
	if err := sqlitex.ExecuteTransient(t.conn, position.SQLiteCreateNotes, nil); err != nil {
		return fmt.Errorf("create table of notes: %w", err)
	}
	n := &t.notes
	for _, p := range []prepared{
		{&n.note, position.SQLiteNote},
		{&n.held, position.SQLiteHeld},
		{&n.release, position.SQLiteRelease},
		{&n.recall, fmt.Sprintf(recallNote, t.table)},
	} {
		if err := p.on(t.conn); err != nil {
			return err
		}
	}
	t.noted = true
	return nil
}

func (t *target) Recall(_ context.Context, keys []string) ([]consumer.Recall, error) {
	if err := t.beginOnce(); err != nil {
		return nil, err
	}
	recalls := make([]consumer.Recall, len(keys))
	s := t.notes.recall
	s.BindText(1, t.table)
	for i, key := range keys {
		s.BindText(2, key)
		if _, err := s.Step(); err != nil {
			return nil, err
		}
		recalls[i] = consumer.Recall{Known: s.ColumnBool(0), Held: s.ColumnInt64(1)}
		if err := s.Reset(); err != nil {
			return nil, err
		}
	}
	return recalls, nil
}

func (t *target) Bury(_ context.Context, key string) error { return t.note(key, 0, nil) }

func (t *target) Hold(_ context.Context, key string, n int64, patch []byte) error {
	return t.note(key, n, patch)
}

func (t *target) note(key string, n int64, patch []byte) error {
	if err := t.beginOnce(); err != nil {
		return err
	}
	s := t.notes.note
	s.BindText(1, t.table)
	s.BindText(2, key)
	s.BindInt64(3, n)
	s.BindBytes(4, patch)
	return run(s)
}

func (t *target) Release(_ context.Context, key string, fn func(patch []byte) error) error {
	if err := t.beginOnce(); err != nil {
		return err
	}
	if fn != nil {
		if err := t.eachHeld(key, fn); err != nil {
			return err
		}
	}
	t.notes.release.BindText(1, t.table)
	t.notes.release.BindText(2, key)
	return run(t.notes.release)
}

func (t *target) eachHeld(key string, fn func(patch []byte) error) error {
	s := t.notes.held
	defer func() { _ = s.Reset() }() // Step has returned its error
	s.BindText(1, t.table)
	s.BindText(2, key)
	for {
		found, err := s.Step()
		if err != nil || !found {
			return err
		}
		patch := make([]byte, s.ColumnLen(0))
		s.ColumnBytes(0, patch)
		if err := fn(patch); err != nil {
			return err
		}
	}
}

// removeNotes removes all notes.
func (t *target) removeNotes() error {
	return sqlitex.Execute(t.conn, position.SQLiteRemoveNotes, &sqlitex.ExecOptions{Args: []any{t.table}})
}
