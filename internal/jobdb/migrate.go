package jobdb

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed sql/*.sql
var files embed.FS

// migrate applies the migrations that are missing, in one transaction, and then River's migrations. It returns an error
// that matches [ErrVersion] if the tables are newer than this program. Other processes that open the database have to
// wait meanwhile, since River's migrations take several transactions.
func (db *DB) migrate(ctx context.Context) error {
	return db.alone(ctx, func() error {
		if err := db.migrateTables(ctx); err != nil {
			return err
		}
		return db.migrateQueue(ctx)
	})
}

func (db *DB) migrateTables(ctx context.Context) error {
	names, err := fs.Glob(files, "sql/*.sql") // sorted by number
	if err != nil {
		return err
	}
	if err := db.prepare(ctx); err != nil {
		return err
	}
	extended, err := db.has(ctx, "job_metrics")
	if err != nil {
		return err
	}
	return db.Begin(ctx, func(tx Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE @version SET version = version"); err != nil { // locks the table
			return err
		}
		var version int
		if _, err := One(ctx, tx, "SELECT version FROM @version", nil, &version); err != nil {
			return err
		}
		if version > len(names) {
			return newer(version, len(names))
		}
		if version == 1 && extended { // in early versions of this program, the first two migrations were one
			version = 2
		}
		for _, name := range names[version:] {
			text, err := files.ReadFile(name)
			if err != nil {
				return err
			}
			for statement := range strings.SplitSeq(string(text), ";\n") {
				if strings.TrimSpace(statement) == "" {
					continue
				}
				if _, err := tx.Exec(ctx, statement); err != nil {
					return fmt.Errorf("migration %s: %w", name, err)
				}
			}
		}
		_, err := tx.Exec(ctx, "UPDATE @version SET version = $1", len(names))
		return err
	})
}

func newer(version, known int) error {
	return fmt.Errorf("%w: they have version %d, and this program knows up to %d: use a newer feedctl", ErrVersion, version, known)
}

// check returns an error unless there are tables with the version of this program.
func (db *DB) check(ctx context.Context) error {
	names, err := fs.Glob(files, "sql/*.sql")
	if err != nil {
		return err
	}
	exists, err := db.has(ctx, "version")
	if err != nil {
		return err
	}
	var version int
	if exists {
		err = db.View(ctx, func(tx Tx) error {
			_, err := One(ctx, tx, "SELECT version FROM @version", nil, &version)
			return err
		})
	}
	if err != nil {
		return err
	}
	if version == 0 { // 0 if there are no tables, or if a program ended before its first migration
		return fmt.Errorf("%w at %s", ErrNone, db.name())
	}
	return compare(version, len(names))
}

// compare returns an error unless the version of the tables is the one that this program knows.
func compare(version, known int) error {
	switch {
	case version > known:
		return newer(version, known)
	case version < known:
		return fmt.Errorf("%w: they have version %d, and this program needs %d", ErrOld, version, known)
	}
	return nil
}

// prepare creates the schema, if the database has schemas, and the table of the version.
func (db *DB) prepare(ctx context.Context) error {
	return db.Begin(ctx, func(tx Tx) error {
		if schema, ok := strings.CutSuffix(db.dialect().prefix, "."); ok {
			if err := createSchema(ctx, tx, schema); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, "CREATE TABLE IF NOT EXISTS @version (version bigint NOT NULL)"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO @version (version) SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM @version)")
		return err
	})
}

// createSchema creates a schema if it does not exist. CREATE SCHEMA IF NOT EXISTS would require the right to create
// schemas even if an administrator has already created this one.
func createSchema(ctx context.Context, tx Tx, schema string) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('feedctl schema "+schema+"', 0))"); err != nil {
		return err
	}
	var exists bool
	if _, err := One(ctx, tx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", []any{schema}, &exists); err != nil || exists {
		return err
	}
	_, err := tx.Exec(ctx, "CREATE SCHEMA "+schema)
	return err
}
