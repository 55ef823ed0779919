package jobdb

import (
	"context"
	"net"
)

// Dial connects as a database in PostgreSQL does.
func (db *DB) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return db.driver.(*postgres).pool.Config().ConnConfig.DialFunc(ctx, network, address)
}

// Kept returns how many statements are kept in the dialect.
func (db *DB) Kept() (n int) {
	db.rewritten.Range(func(any, any) bool { n++; return true })
	return n
}

// Compare compares the version of tables with the known version.
var Compare = compare

// Prepared returns how many statements of an SQLite database are prepared.
func (db *DB) Prepared() (n int) {
	for _, s := range db.driver.(*sqlite).prepared.statements {
		if s != nil {
			n++
		}
	}
	return n
}
