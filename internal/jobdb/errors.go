package jobdb

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
	modernc "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/feedctl/feedctl/internal/pgerr"
)

// Passes reports whether an error means that the database cannot be used for now, rather than that the
// statement failed.
func Passes(err error) bool {
	if e, ok := errors.AsType[*modernc.Error](err); ok {
		switch e.Code() & 0xff { // the primary code, without the details of the extended code
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL:
			return true
		}
		return false
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case "25006", // read_only_sql_transaction: the server is a standby, perhaps after a failover
			"25P03", // idle_in_transaction_session_timeout: this process was frozen
			"53100": // disk_full
			return true
		}
		return pgerr.Passes(e.Code)
	}
	return pgerr.Network(err) || pgconn.SafeToRetry(err)
}
