package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/feed"
)

// minServer is the oldest major version of PostgreSQL that is supported.
const minServer = 14

// setUp makes what is missing. One does it at a time.
func (t *target) setUp(ctx context.Context, tx pgx.Tx) error {
	if err := t.step(); err != nil {
		return err
	}
	// The names of types are compared, whatever the database or the user has.
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('feedctl sink tables', 0)), set_config('quote_all_identifiers', 'off', true)`); err != nil {
		return err
	}
	if err := t.fit(ctx, tx); err != nil {
		return err
	}
	if err := t.resolve(ctx, tx); err != nil {
		return err
	}
	if _, err := t.ensure(ctx, tx, positionsTable, t.table.createPositions()); err != nil {
		return err
	}
	if len(t.projections) > 0 {
		if _, err := t.ensure(ctx, tx, quarantineTable, t.table.createQuarantine()); err != nil {
			return err
		}
	}
	created, err := t.ensure(ctx, tx, t.table.name, t.table.create())
	if err != nil {
		return err
	}
	if !created {
		if err := t.checkTable(ctx, tx); err != nil {
			return err
		}
	}
	return t.enter(ctx, tx)
}

// fit finds the schema, and returns an error if the server will not do.
func (t *target) fit(ctx context.Context, tx pgx.Tx) error {
	var version int
	var encoding, schema string
	err := tx.QueryRow(ctx, `SELECT current_setting('server_version_num')::int / 10000, current_setting('server_encoding'), coalesce(current_schema(), '')`).
		Scan(&version, &encoding, &schema)
	if err != nil {
		return err
	}
	if version < minServer {
		return fmt.Errorf("PostgreSQL %d is too old, want %d or newer", version, minServer)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("the database has the encoding %s, want UTF8", encoding)
	}
	if t.table.schema == "" {
		if schema == "" {
			return errors.New("the search_path leads to no schema: name one, as in table=SCHEMA.TABLE")
		}
		t.table.schema = schema
	}
	var there bool
	err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", t.table.schema).Scan(&there)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("there is no schema %q: CREATE SCHEMA %s", t.table.schema, pgx.Identifier{t.table.schema}.Sanitize())
	}
	return nil
}

// resolve asks the server for the types of the columns.
func (t *target) resolve(ctx context.Context, tx pgx.Tx) error {
	if len(t.projections) == 0 {
		t.table.generic()
		return nil
	}
	field := len(staged)
	for i := range t.projections {
		p := &t.projections[i]
		var category, base string
		// The type modifier -1 keeps the names of types that have a length of 1 without.
		err := tx.QueryRow(ctx, `
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

// noTables are the kinds of things that are no tables, or none of this database (PostgreSQL
// documentation, pg_class).
var noTables = map[string]string{
	"v": "a view: name the table behind it", "m": "a materialized view", "f": "a foreign table: connect to the server that has it",
	"i": "an index", "I": "an index", "S": "a sequence", "c": "a composite type",
}

// ensure creates a table unless it is there. One that a crash of the server empties, while
// the position stays, is refused.
func (t *target) ensure(ctx context.Context, tx pgx.Tx, name, create string) (created bool, err error) {
	var kind string
	var unlogged *string // the table, or a partition of it
	err = tx.QueryRow(ctx, `
		SELECT c.relkind::text, (
			SELECT format('%I.%I', pn.nspname, p.relname)
			FROM pg_catalog.pg_class AS p JOIN pg_catalog.pg_namespace AS pn ON pn.oid = p.relnamespace
			WHERE (p.oid = c.oid OR p.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree(c.oid))) AND p.relpersistence = 'u' AND p.relkind = 'r'
			LIMIT 1)
		FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2`, t.table.schema, name).Scan(&kind, &unlogged)
	if errors.Is(err, pgx.ErrNoRows) {
		if _, err := tx.Exec(ctx, create); err != nil {
			return false, fmt.Errorf("create table %s: %w", name, err)
		}
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if what, ok := noTables[kind]; ok {
		return false, fmt.Errorf("%s is %s", t.table.quoted(name), what)
	}
	if unlogged != nil {
		return false, fmt.Errorf("a crash of the server empties the table, and not the position: ALTER TABLE %s SET LOGGED", *unlogged)
	}
	return false, nil
}

// enter makes the row of the position, unless it is there.
func (t *target) enter(ctx context.Context, tx pgx.Tx) error {
	positions := t.table.quoted(positionsTable)
	var known, others, rows bool
	err := tx.QueryRow(ctx, fmt.Sprintf(`SELECT
		EXISTS (SELECT FROM %[1]s WHERE table_name = $1 AND name = $2),
		EXISTS (SELECT FROM %[1]s WHERE table_name = $1), EXISTS (SELECT FROM %[2]s)`, positions, t.table.quoted(t.table.name)),
		t.table.name, t.name).Scan(&known, &others, &rows)
	if err != nil || known {
		return err
	}
	if rows && !others {
		return errors.New("the table has rows but no position: it was not written by feedctl, or its position was lost; use another table")
	}
	_, err = tx.Exec(ctx, "INSERT INTO "+positions+" (table_name, name, position, owner, commits) VALUES ($1, $2, '{}', '', 0)", t.table.name, t.name)
	return err
}

func parsePosition(text string) (at feed.Position, err error) {
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		return at, fmt.Errorf("read position: %w", err)
	}
	return at, nil
}
