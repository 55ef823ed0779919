package position

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/feedctl/feedctl/sink/internal/durable"
)

// Statements for SQLite. ?1 is the table that the sink writes or, for custom tables, "own-"
// and the name of the consumer, which is not a valid name of a table.
const (
	SQLiteCreate = `CREATE TABLE IF NOT EXISTS feedctl_positions (
	name     TEXT NOT NULL PRIMARY KEY COLLATE NOCASE,
	position TEXT NOT NULL
)`
	SQLiteEnter = "INSERT INTO feedctl_positions (name, position) VALUES (?1, '{}') ON CONFLICT DO NOTHING"
	SQLiteRead  = "SELECT position FROM feedctl_positions WHERE name = ?1"
	// SQLiteMove moves the position to ?2.
	SQLiteMove = "UPDATE feedctl_positions SET position = ?2 WHERE name = ?1"

	// SQLiteCreateNotes creates the table of notes for [consumer.Backfill]: patches that are held, and
	// with n = 0 the keys that were deleted.
	SQLiteCreateNotes = `CREATE TABLE IF NOT EXISTS feedctl_notes (
	name  TEXT NOT NULL COLLATE NOCASE,
	key   TEXT NOT NULL,
	n     INTEGER NOT NULL,
	patch BLOB,
	PRIMARY KEY (name, key, n)
) WITHOUT ROWID`
	SQLiteNote        = "INSERT INTO feedctl_notes (name, key, n, patch) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING"
	SQLiteHeld        = "SELECT patch FROM feedctl_notes WHERE name = ?1 AND key = ?2 AND n <> 0 ORDER BY n"
	SQLiteRelease     = "DELETE FROM feedctl_notes WHERE name = ?1 AND key = ?2 AND n <> 0"
	SQLiteRemoveNotes = "DELETE FROM feedctl_notes WHERE name = ?1"

	// SQLiteCreateSeen creates the table with the keys of a snapshot that replaces the data, for
	// [consumer.Replacement]. The key '', which no entity has, stands for the replacement.
	SQLiteCreateSeen = `CREATE TABLE IF NOT EXISTS feedctl_seen (
	name TEXT NOT NULL COLLATE NOCASE,
	key  TEXT NOT NULL,
	PRIMARY KEY (name, key)
) WITHOUT ROWID`
	SQLiteSee     = "INSERT INTO feedctl_seen (name, key) VALUES (?1, ?2) ON CONFLICT DO NOTHING"
	SQLiteHasSeen = "SELECT 1 FROM feedctl_seen WHERE name = ?1 AND key = ''"
	SQLiteForget  = "DELETE FROM feedctl_seen WHERE name = ?1"
)

// LockSQLite locks a row of the table in a database file against a second consumer, until the returned lock
// file is closed. The file is not removed.
func LockSQLite(path, name string) (*durable.File, error) {
	// All paths of one database must have the same lock.
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	file, err := durable.FS{}.Open(path+"."+strings.ToLower(name)+".lock", os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := file.Lock(); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
