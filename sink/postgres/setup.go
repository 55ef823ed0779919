package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// setUp creates the tables that do not exist. Only one transaction at a time can do so.
func (t *target) setUp(ctx context.Context, tx pgx.Tx) error {
	// The names of types are compared, so they must not depend on settings.
	if _, err := tx.Exec(ctx, `SELECT set_config('quote_all_identifiers', 'off', true)`); err != nil {
		return err
	}
	if err := t.SetUp(ctx, tx); err != nil {
		return err
	}
	t.table.schema = t.Schema
	if err := t.resolve(ctx, tx); err != nil {
		return err
	}
	if len(t.projections) > 0 {
		if _, err := t.Ensure(ctx, tx, quarantineTable, t.table.createQuarantine()); err != nil {
			return err
		}
	}
	created, err := t.Ensure(ctx, tx, t.table.name, t.table.create())
	if err != nil {
		return err
	}
	if !created {
		if err := t.checkTable(ctx, tx); err != nil {
			return err
		}
	}
	return t.Enter(ctx, tx)
}

// A querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// resolve reads the types of the columns from the server.
func (t *target) resolve(ctx context.Context, db querier) error {
	if len(t.projections) == 0 {
		t.table.generic()
		return nil
	}
	field := len(staged)
	for i := range t.projections {
		p := &t.projections[i]
		var category, base string
		// With the type modifier -1, types whose default length is 1 keep their names.
		err := db.QueryRow(ctx, `
			SELECT format_type(t.oid, -1), t.typcategory, format_type(CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END, -1)
			FROM pg_catalog.pg_type AS t WHERE t.oid = $1::text::regtype`, p.declared).Scan(&p.typ, &category, &base)
		if err != nil {
			return fmt.Errorf("type %q of column %s: %w", p.declared, p.name, err)
		}
		switch {
		case base == "json" || base == "jsonb":
			p.kind = jsonText
		case category == "A" || category == "C":
			p.kind = record
		}
		if p.field != "" {
			continue
		}
		if p.kind == jsonText && p.pointer.Text() == "" && t.document < 0 {
			t.document = field
		}
		field++
	}
	t.table.projected(t.projections)
	return nil
}
