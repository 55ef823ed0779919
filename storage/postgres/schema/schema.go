// Package schema creates and migrates what feedctl keeps in a PostgreSQL database:
// the tables of package storage/postgres and all else, in one schema and with one
// version.
package schema

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/tern/v2/migrate"

	"github.com/feedctl/feedctl/storage"
)

// Default is the name of the schema if none is given.
const Default = "feedctl"

// MinServer is the oldest major version of PostgreSQL that is supported.
const MinServer = 14

// versionTable holds, in one row, the number of the last migration that was
// applied.
const versionTable = "schema_version"

// The migrations are applied in the order of their numbers, all that are missing in
// one transaction, as templates with the name of the schema: {{.schema}}.
//
//go:embed sql/*.sql
var files embed.FS

var validName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

// CheckName returns an error unless name can be that of the schema: a-z, 0-9 and
// "_", at most 48 of them, not a digit first, not beginning with "pg_". Such a name
// needs no quotes and leaves room for the names of channels that begin with it.
func CheckName(name string) error {
	if !validName.MatchString(name) || strings.HasPrefix(name, "pg_") {
		return fmt.Errorf("invalid schema %q: want up to 48 of a-z 0-9 _, not a digit first, not pg_", name)
	}
	return nil
}

// Cut takes the parameter "schema" out of a database URL, since the rest belongs to
// the client library. Without it the name is [Default].
func Cut(u *url.URL) (rest *url.URL, name string, err error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, "", fmt.Errorf("parameters of the database URL: %w", err)
	}
	name = Default
	if query.Has("schema") {
		name = query.Get("schema")
		query.Del("schema")
	}
	if err := CheckName(name); err != nil {
		return nil, "", err
	}
	cut := *u
	cut.RawQuery = query.Encode()
	return &cut, name, nil
}

// Migrate brings the schema to the version of this program, over a connection of its
// own. It writes nothing, and needs no right but to read, if that is the version
// already. Any number of processes may do it at a time: all that is missing is
// applied in one transaction, under a lock that ends with it, so also through a
// PgBouncer in transaction mode.
//
// A schema that is newer than this program is an error that matches
// [storage.ErrLayout]; lack of rights is one that matches [storage.ErrPermission].
func Migrate(ctx context.Context, config *pgx.ConnConfig, name string) error {
	if err := migrateSchema(ctx, config, name); err != nil {
		return fmt.Errorf("schema %q of database %q: %w", name, config.Database, err)
	}
	return nil
}

func migrateSchema(ctx context.Context, config *pgx.ConnConfig, name string) (err error) {
	if err := CheckName(name); err != nil {
		return err
	}
	config = config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // leaves nothing behind in a shared session
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	sql, err := fs.Sub(files, "sql")
	if err != nil {
		return err
	}
	names, err := migrate.FindMigrations(sql)
	if err != nil {
		return err
	}
	newest := int32(len(names))
	version, err := current(ctx, conn, name)
	if err != nil || version == newest {
		return err
	}
	if version > newest {
		return newer(version, newest)
	}
	if err := fit(ctx, conn); err != nil {
		return err
	}
	return apply(ctx, conn, name, sql, newest)
}

func newer(version, newest int32) error {
	return fmt.Errorf("%w: it has version %d, this program knows up to %d: use a newer feedctl", storage.ErrLayout, version, newest)
}

// current returns the version of the schema, 0 if there is none.
func current(ctx context.Context, conn *pgx.Conn, name string) (version int32, err error) {
	var there bool
	err = conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", name+"."+versionTable).Scan(&there)
	if err != nil || !there {
		return 0, refusal(err)
	}
	err = conn.QueryRow(ctx, "SELECT version FROM "+name+"."+versionTable).Scan(&version)
	return version, refusal(err)
}

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

// apply applies what is missing in one transaction.
func apply(ctx context.Context, conn *pgx.Conn, name string, sql fs.FS, newest int32) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// It ends with the transaction, unlike the lock that the migrator takes for
		// itself. Whoever has the first holds the second.
		_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", "feedctl schema "+name)
		if err != nil {
			return err
		}
		version, err := current(ctx, conn, name)
		if err != nil || version == newest {
			return err // another process did it meanwhile
		}
		if version > newest {
			return newer(version, newest)
		}
		step, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		if err := run(ctx, conn, name, sql); err != nil {
			return errors.Join(refusal(err), unlock(ctx, step))
		}
		return step.Commit(ctx)
	})
}

// run runs the migrator within the transaction that the connection is in.
func run(ctx context.Context, conn *pgx.Conn, name string, sql fs.FS) error {
	// With "IF NOT EXISTS" it would need the right to create schemas also if an
	// administrator has made this one. The query has a snapshot of its own, taken
	// under the lock; to_regnamespace may answer from a cache that is older.
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", name).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := conn.Exec(ctx, "CREATE SCHEMA "+name); err != nil {
			return err
		}
	}
	options := &migrate.MigratorOptions{DisableTx: true}
	migrator, err := migrate.NewMigratorEx(ctx, conn, name+"."+versionTable, options)
	if err != nil {
		return err
	}
	migrator.Data["schema"] = name
	if err := migrator.LoadMigrations(sql); err != nil {
		return err
	}
	return migrator.Migrate(ctx)
}

// unlock undoes a step that has failed. The migrator could not release its lock,
// which belongs to the session, and the session may be one of a PgBouncer and live on.
func unlock(ctx context.Context, step pgx.Tx) error {
	ctx = context.WithoutCancel(ctx)
	if err := step.Rollback(ctx); err != nil {
		return nil // the connection is gone, and with it the session
	}
	_, err := step.Conn().Exec(ctx, "SELECT pg_advisory_unlock_all()")
	return err
}

// refusal names the errors that a user can do something about.
func refusal(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "42501": // insufficient_privilege
			return fmt.Errorf("%w: %w: have its owner run feedctl once, or GRANT it", storage.ErrPermission, err)
		case "25006": // read_only_sql_transaction
			return fmt.Errorf("%w: it must be migrated, and this server is read-only, maybe a standby", err)
		}
	}
	return err
}
