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

// fit returns an error if the server cannot hold the tables.
func fit(ctx context.Context, conn *pgx.Conn) error {
	var version, block int
	err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int / 10000, current_setting('block_size')::int").Scan(&version, &block)
	if err != nil {
		return err
	}
	if version < MinServer {
		return fmt.Errorf("%w: PostgreSQL %d is too old, want %d or newer", storage.ErrUnsafe, version, MinServer)
	}
	if block < 8192 {
		return fmt.Errorf("%w: the server was built with a block size of %d bytes, want 8192", storage.ErrUnsafe, block)
	}
	return nil
}

// apply applies what is missing in one transaction, unless only allows a schema that
// is not there yet and there is one. It returns what it found and left.
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
			return err // another process did it meanwhile
		}
		if err := m.run(ctx, tx, name, before.Version); err != nil {
			return refusal(err)
		}
		after = state{m.newest, minRead, minWrite}
		return nil
	})
	return before, after, err
}

// run applies the migrations after a version, in the transaction.
func (m *migrations) run(ctx context.Context, tx pgx.Tx, name string, from int32) error {
	// With "IF NOT EXISTS" it would need the right to create schemas also if an
	// administrator has made this one. The query has a snapshot of its own, taken
	// under the lock; to_regnamespace may answer from a cache that is older.
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
		// Without arguments a text may hold any number of statements.
		if _, err := tx.Conn().PgConn().Exec(ctx, step.SQL).ReadAll(); err != nil {
			return fmt.Errorf("migration %s: %w", step.Name, err)
		}
	}
	return record(ctx, tx, name, m.newest)
}

// refusal names the errors that a user can do something about.
func refusal(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "42501": // insufficient_privilege
			return fmt.Errorf("%w: %w: have its owner run \"feedctl init\" or \"feedctl migrate\", or GRANT it", storage.ErrPermission, err)
		case "25006": // read_only_sql_transaction
			return fmt.Errorf("%w: it must be migrated, and this server is read-only, maybe a standby", err)
		}
	}
	return err
}

// unavailable marks the errors of a server that does not answer, or not yet.
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
