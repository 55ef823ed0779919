package pgposition

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/sink/internal/position"
)

// minServer is the oldest supported major version of PostgreSQL.
const minServer = 14

// fit finds the schema if none is named, and checks that the server can be used.
func (k *Keeper) fit(ctx context.Context, tx pgx.Tx) error {
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
	if k.Schema == "" {
		if schema == "" {
			return errors.New("the search_path contains no existing schema: name one, as in table=SCHEMA.TABLE")
		}
		k.Schema = schema
	}
	var there bool
	err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", k.Schema).Scan(&there)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("schema %q does not exist: CREATE SCHEMA %s", k.Schema, pgx.Identifier{k.Schema}.Sanitize())
	}
	return nil
}

// noTables describes the kinds of relations that are not tables of this database (PostgreSQL
// documentation, pg_class).
var noTables = map[string]string{
	"v": "a view: name its table", "m": "a materialized view", "f": "a foreign table: connect to the server that has it",
	"i": "an index", "I": "an index", "S": "a sequence", "c": "a composite type",
}

// Ensure creates a table if it does not exist. It returns an error for an unlogged table, which
// a crash of the server would empty while the position stays.
func (k *Keeper) Ensure(ctx context.Context, tx pgx.Tx, name, create string) (created bool, err error) {
	var kind string
	var unlogged *string // the table, or a partition of it
	err = tx.QueryRow(ctx, `
		SELECT c.relkind::text, (
			SELECT format('%I.%I', pn.nspname, p.relname)
			FROM pg_catalog.pg_class AS p JOIN pg_catalog.pg_namespace AS pn ON pn.oid = p.relnamespace
			WHERE (p.oid = c.oid OR p.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree(c.oid))) AND p.relpersistence = 'u' AND p.relkind = 'r'
			LIMIT 1)
		FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2`, k.Schema, name).Scan(&kind, &unlogged)
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
		return false, fmt.Errorf("%s is %s", k.quoted(name), what)
	}
	if unlogged != nil {
		return false, fmt.Errorf("a crash of the server would empty the unlogged table but keep the position: ALTER TABLE %s SET LOGGED", *unlogged)
	}
	return false, nil
}

// SetUp finds the schema and creates the table of positions if it does not exist. Until the
// transaction ends, no other sink creates tables.
func (k *Keeper) SetUp(ctx context.Context, tx pgx.Tx) error {
	if err := k.Step(); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, position.PostgresSetUp); err != nil {
		return err
	}
	if err := k.fit(ctx, tx); err != nil {
		return err
	}
	_, err := k.Ensure(ctx, tx, position.Table, fmt.Sprintf(position.PostgresCreate, k.quoted(position.Table)))
	return err
}

// Enter inserts the row of the position if it does not exist. It returns an error for a table
// that has rows but no consumer.
func (k *Keeper) Enter(ctx context.Context, tx pgx.Tx) error {
	if k.Table != "" {
		var consumers, rows bool
		err := tx.QueryRow(ctx, fmt.Sprintf("SELECT EXISTS (SELECT FROM %s WHERE table_name = $1), EXISTS (SELECT FROM %s)",
			k.quoted(position.Table), k.quoted(k.Table)), k.Table).Scan(&consumers, &rows)
		if err != nil {
			return err
		}
		if rows && !consumers {
			return errors.New("the table has rows but no position: it was not written by feedctl, or its position was lost; use another table")
		}
	}
	_, err := tx.Exec(ctx, k.sql(position.PostgresEnter), k.Table, k.Name)
	return err
}
