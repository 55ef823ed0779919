package main

import (
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// rowsPerTransaction is how many rows insertStraight commits at once: about
// what the sink commits at once.
const rowsPerTransaction = 10_000

// insertStraight writes the rows that consuming the feed would leave, with the
// library, the pragmas and the table of the sink, and no feed around.
func insertStraight(file string, entities int) (err error) {
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenWAL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := sqlitex.ExecuteScript(conn, `
		PRAGMA synchronous = FULL;
		CREATE TABLE entities (key TEXT PRIMARY KEY, content_type TEXT NOT NULL, body BLOB,
			last_modified TEXT NOT NULL, content_id TEXT NOT NULL, headers TEXT) WITHOUT ROWID`, nil); err != nil {
		return err
	}
	for first := 0; first < entities; first += rowsPerTransaction {
		if err := insertRows(conn, first, min(first+rowsPerTransaction, entities)); err != nil {
			return err
		}
	}
	return nil
}

func insertRows(conn *sqlite.Conn, first, end int) (err error) {
	defer sqlitex.Transaction(conn)(&err)
	insert := conn.Prep(`INSERT INTO entities (key, content_type, body, last_modified, content_id, headers)
		VALUES (?, ?, ?, ?, ?, ?)`)
	for i := first; i < end; i++ {
		e := newEntity(i)
		insert.BindText(1, e.ContentLocation)
		insert.BindText(2, e.ContentType)
		insert.BindBytes(3, e.Body)
		insert.BindText(4, "2023-11-27T03:10:00Z")
		insert.BindText(5, fmt.Sprintf("<%032x>", i))
		insert.BindText(6, "[]")
		if _, err := insert.Step(); err != nil {
			return err
		}
		if err := insert.Reset(); err != nil {
			return err
		}
	}
	return nil
}
