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

// migrate applies the migrations that are missing, in one transaction, and then River's. It returns an error
// that matches [ErrVersion] if the tables are newer than this program.
func (db *DB) migrate(ctx context.Context) error {
	names, err := fs.Glob(files, "sql/*.sql") // in the order of their numbers
	if err != nil {
		return err
	}
	if err := db.prepare(ctx); err != nil {
		return err
	}
	err = db.Begin(ctx, func(tx Tx) error {
		if _, err := tx.Exec(ctx, "UPDATE @version SET version = version"); err != nil { // locks it
			return err
		}
		var version int
		if _, err := One(ctx, tx, "SELECT version FROM @version", nil, &version); err != nil {
			return err
		}
		if version > len(names) {
			return fmt.Errorf("%w: they have version %d, and this program knows up to %d: use a newer feedctl", ErrVersion, version, len(names))
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
	if err != nil {
		return err
	}
	return db.driver.migrateQueue(ctx)
}

// prepare creates the schema, if the database has schemas, and the table of the version.
func (db *DB) prepare(ctx context.Context) error {
	return db.Begin(ctx, func(tx Tx) error {
		statements := []string{
			"CREATE TABLE IF NOT EXISTS @version (version bigint NOT NULL)",
			"INSERT INTO @version (version) SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM @version)",
		}
		if schema, ok := strings.CutSuffix(db.dialect().prefix, "."); ok {
			statements = append([]string{
				"SELECT pg_advisory_xact_lock(hashtextextended('feedctl schema " + schema + "', 0))",
				"CREATE SCHEMA IF NOT EXISTS " + schema,
			}, statements...)
		}
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}
