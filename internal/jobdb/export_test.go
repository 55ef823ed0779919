package jobdb

import (
	"context"
	"net"
)

// Dial connects in the same way as a database in PostgreSQL does.
func (db *DB) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return db.driver.(*postgres).pool.Config().ConnConfig.DialFunc(ctx, network, address)
}

// Kept returns how many translations of statements into the dialect of the database are kept.
func (db *DB) Kept() (n int) {
	db.rewritten.Range(func(any, any) bool { n++; return true })
	return n
}

// Compare compares the version of the tables with the version that this program knows.
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
