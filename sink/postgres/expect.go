package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/feedctl/feedctl/sink"
)

// Expect makes the commit of the batch fail with a [*sink.ChangedError] unless the row of the key
// is still equal to the given one; nil means that there must be no row.
func (t *target) Expect(_ context.Context, key string, was *sink.Row) error {
	t.alone = true // the expectations must be checked before any row is sent
	if t.expected == nil {
		t.expected = make(map[string]*sink.Row)
	}
	t.expected[key] = was
	return nil
}

// checkExpected checks the expectations in the transaction of the batch. Other transactions cannot
// write to the table until this one ends.
func (t *target) checkExpected(ctx context.Context) error {
	if len(t.expected) == 0 {
		return nil
	}
	if err := t.Step(); err != nil {
		return err
	}
	conn := t.Writer.Conn
	if _, err := conn.Exec(ctx, "LOCK TABLE "+t.table.quoted(t.table.name)+" IN SHARE ROW EXCLUSIVE MODE"); err != nil {
		return fmt.Errorf("lock table against changes: %w", err)
	}
	have, err := t.existingColumns(ctx, conn)
	if err != nil {
		return err
	}
	query := t.rowQuery(have)
	var texts []string
	for key := range t.expected {
		texts = append(texts, asText(key))
	}
	rows, err := conn.Query(ctx, query.named(), texts)
	if err != nil {
		return err
	}
	changed := make(map[string]bool)
	for key, was := range t.expected {
		changed[key] = was != nil // unless it is found
	}
	err = eachRow(rows, func(row sink.Row) bool {
		was := t.expected[row.Key]
		changed[row.Key] = was == nil || *was != row
		return true
	})
	if err != nil {
		return err
	}
	maps.DeleteFunc(changed, func(_ string, yes bool) bool { return !yes })
	if len(changed) > 0 {
		return &sink.ChangedError{Keys: slices.Sorted(maps.Keys(changed))}
	}
	return nil
}
