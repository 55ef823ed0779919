package schema

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/storage"
)

// A Use says what a program does with a schema.
type Use string

// The uses.
const (
	Read  Use = "read"  // read objects
	Write Use = "write" // write objects, or use the outbox
)

// oldest is the oldest version of a schema that supports a use by this program.
var oldest = map[Use]int32{Read: 1, Write: 4}

// The oldest version that programs must know to use a schema of the newest version. A
// migration that breaks programs that know these versions must raise them, and can only
// be added once such programs are no longer supported.
const (
	minRead  int32 = 4
	minWrite int32 = 4
)

// A state is the row of the version table.
type state struct {
	Version  int32 `json:"version"` // 0 if there is no schema
	MinRead  int32 `json:"min_read"`
	MinWrite int32 `json:"min_write"` // both 0 in a schema created before they were introduced
}

// current returns the state of the schema. In an older schema, columns of the version table may be
// missing.
func current(ctx context.Context, conn *pgx.Conn, name string) (s state, err error) {
	// to_regclass may use a cache that is older than the lock.
	const find = "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = $2)"
	var there bool
	err = conn.QueryRow(ctx, find, name, versionTable).Scan(&there)
	if err != nil || !there {
		return state{}, refusal(err)
	}
	var row []byte
	if err := conn.QueryRow(ctx, "SELECT to_jsonb(v) FROM "+name+"."+versionTable+" AS v").Scan(&row); err != nil {
		return state{}, refusal(err)
	}
	if err := json.Unmarshal(row, &s); err != nil {
		return state{}, fmt.Errorf("read the version: %w", err)
	}
	return s, nil
}

// allow returns an error unless a program that knows the newest version can use the
// schema as it is.
func (s state) allow(use Use, newest int32) error {
	least := s.MinRead
	if use == Write {
		least = s.MinWrite
	}
	if least == 0 {
		least = s.Version
	}
	switch {
	case s.Version == 0:
		return fmt.Errorf("%w: it has no tables of feedctl", storage.ErrNoStore)
	case s.Version < oldest[use]:
		return fmt.Errorf("%w: it has version %d; to %s it, this program needs version %d or newer: run \"feedctl migrate\" with the URL of the store",
			storage.ErrLayout, s.Version, use, oldest[use])
	case s.Version > newest && newest < least:
		return fmt.Errorf("%w: it has version %d; to %s it, a program must know version %d, and this one knows up to %d: use a newer feedctl",
			storage.ErrLayout, s.Version, use, least, newest)
	}
	return nil
}

// createVersion creates the version table, with one row, if it does not exist, and adds columns
// that are missing in an older table.
func createVersion(ctx context.Context, tx pgx.Tx, name string) error {
	table := name + "." + versionTable
	for _, sql := range []string{
		"CREATE TABLE IF NOT EXISTS " + table + " (version int4 NOT NULL)",
		"INSERT INTO " + table + " (version) SELECT 0 WHERE NOT EXISTS (SELECT FROM " + table + ")",
		"ALTER TABLE " + table + " ADD COLUMN IF NOT EXISTS min_read int NOT NULL DEFAULT 0, ADD COLUMN IF NOT EXISTS min_write int NOT NULL DEFAULT 0",
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// record writes the newest version and the versions that other programs must know.
func record(ctx context.Context, tx pgx.Tx, name string, newest int32) error {
	_, err := tx.Exec(ctx, "UPDATE "+name+"."+versionTable+" SET version = $1, min_read = $2, min_write = $3", newest, minRead, minWrite)
	return err
}
