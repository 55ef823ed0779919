package main

import (
	"errors"
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// rowsPerTransaction is the number of rows per transaction of insertStraight: as many
// entities of 1 KB as "feedctl consume" commits together (8 MiB).
const rowsPerTransaction = 8 << 20 / entitySize

// straightSetup prepares a new database as the sink does, but keeps SQLite's default for when the log
// is copied into the database, as most programs do.
const straightSetup = `
	PRAGMA page_size = 8192;
	PRAGMA journal_mode = WAL;
	PRAGMA synchronous = FULL;
	PRAGMA cache_size = -8192;
	CREATE TABLE entities (
		key TEXT NOT NULL PRIMARY KEY, content_type TEXT NOT NULL, body BLOB NOT NULL,
		last_modified TEXT NOT NULL, content_id TEXT NOT NULL, headers TEXT NOT NULL)`

// insertStraight writes the same rows as a consumer of the feed, with the library and the settings of
// the sink, but without a feed.
func insertStraight(file string, entities int) (err error) {
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for statement := range strings.SplitSeq(straightSetup, ";") {
		if err := sqlitex.ExecuteTransient(conn, statement, nil); err != nil {
			return err
		}
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
		VALUES (?, ?, CAST(? AS TEXT), ?, ?, ?)`)
	for i := first; i < end; i++ {
		e := newEntity(i)
		insert.BindText(1, e.ContentLocation)
		insert.BindText(2, e.ContentType)
		insert.BindBytes(3, e.Body)
		insert.BindText(4, "2023-11-27T03:10:00Z")
		insert.BindText(5, fmt.Sprintf("<%032x>", i))
		insert.BindText(6, "{}")
		if _, err := insert.Step(); err != nil {
			return err
		}
		if err := insert.Reset(); err != nil {
			return err
		}
	}
	return nil
}
