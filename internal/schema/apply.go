package schema

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedctl/feedctl/internal/pgerr"
	"github.com/feedctl/feedctl/storage"
)

// fit returns an error if the server does not support the schema.
func fit(ctx context.Context, conn *pgx.Conn) error {
	var version, block int
	err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int / 10000, current_setting('block_size')::int").Scan(&version, &block)
	if err != nil {
		return err
	}
	if version < minServer {
		return fmt.Errorf("%w: PostgreSQL %d is too old, want %d or newer", storage.ErrUnsafe, version, minServer)
	}
	if block < 8192 {
		return fmt.Errorf("%w: the server was built with a block size of %d bytes, want 8192", storage.ErrUnsafe, block)
	}
	return nil
}

// apply applies the missing migrations in one transaction, provided that the given predicate is true of the current
// state. It returns the state before and after.
func apply(ctx context.Context, conn *pgx.Conn, name string, m *migrations, only func(state) bool) (before, after state, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// The lock ends with the transaction.
		_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", "feedctl schema "+name)
		if err != nil {
			return err
		}
		before, err = current(ctx, conn, name)
		after = before
		if err != nil || before.Version >= m.newest || !only(before) {
			return err // nil if another process has applied the migrations in the meantime
		}
		if err := m.run(ctx, tx, name, before.Version); err != nil {
			return refusal(err)
		}
		after = state{m.newest, minRead, minWrite}
		return nil
	})
	return before, after, err
}

// run applies the migrations that follow a version, in the transaction.
func (m *migrations) run(ctx context.Context, tx pgx.Tx, name string, from int32) error {
	// CREATE SCHEMA IF NOT EXISTS needs the right to create schemas even if an
	// administrator has created this one. The query uses a snapshot taken under the lock; to_regnamespace may use an
	// older cache.
	var there bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", name).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+name); err != nil {
			return err
		}
	}
	if err := createVersion(ctx, tx, name); err != nil {
		return err
	}
	plan, err := m.plan(from, name)
	if err != nil {
		return err
	}
	for _, step := range plan.Steps {
		// Without arguments, the SQL may consist of several statements.
		if _, err := tx.Conn().PgConn().Exec(ctx, step.SQL).ReadAll(); err != nil {
			return fmt.Errorf("migration %s: %w", step.Name, err)
		}
	}
	return record(ctx, tx, name, m.newest)
}

// refusal adds a remedy to errors that the user can fix.
func refusal(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "42501": // insufficient_privilege
			return fmt.Errorf("%w: %w: have its owner run \"feedctl init\" or \"feedctl migrate\", or GRANT the privilege to this user", storage.ErrPermission, err)
		case "25006": // read_only_sql_transaction
			return fmt.Errorf("%w: the schema must be migrated, but the server is read-only, possibly a standby: connect to the primary", err)
		}
	}
	return err
}

// unavailable makes transient errors match [storage.ErrUnavailable].
func unavailable(err error) error {
	passes := pgerr.Network(err)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		passes = pgerr.Passes(pg.Code)
	}
	if passes || errors.Is(err, pgconn.ErrReadOnlyConnection) || errors.Is(err, pgconn.ErrStandbyConnection) {
		return fmt.Errorf("%w: %w", storage.ErrUnavailable, err)
	}
	return err
}
