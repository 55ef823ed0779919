package sqlite

import (
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// TestSynchronous: each commit is synced to the disk, unless the file is temporary.
func TestSynchronous(t *testing.T) {
	for temporary, want := range map[bool]int{false: 2, true: 0} { // FULL, OFF
		target := &target{table: DefaultTable, path: filepath.Join(t.TempDir(), "x.db"), temporary: temporary}
		if err := target.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := -1
		err := sqlitex.ExecuteTransient(target.conn, "PRAGMA synchronous", &sqlitex.ExecOptions{
			ResultFunc: func(row *sqlite.Stmt) error { got = row.ColumnInt(0); return nil },
		})
		if err != nil || got != want {
			t.Errorf("temporary %v: synchronous is %d, %v, want %d", temporary, got, err, want)
		}
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	}
}
