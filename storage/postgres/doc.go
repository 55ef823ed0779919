// Package postgres is a driver for [storage.Store] that keeps objects in a
// PostgreSQL database, version 14 or newer. Any number of processes may use it at a
// time, also through PgBouncer in transaction mode.
//
// # URL
//
//	postgres://USER:PASSWORD@HOST:PORT/DATABASE?schema=feedctl
//
// "postgresql" is the same scheme. Schema names the schema that holds the tables,
// [schema.Default] if it is missing. The other parameters are those of libpq
// (sslmode, host for a socket's directory, target_session_attrs=read-write with
// several hosts for failover, ...), those that pgxpool knows (pool_max_conns, which
// is 4 or the number of CPUs if that is more; pool_max_conn_lifetime, ...), and
// settings of the server, such as statement_timeout. What the URL leaves open comes
// from the environment (PGHOST, PGPASSWORD, PGSSLMODE, ...), as with libpq.
//
// [Create] makes the schema if there is none, [Migrate] brings it to the newest version,
// and nothing else changes it; see package schema for which versions can be used as they
// are. To read, a user needs USAGE of the schema and SELECT on its tables; to write,
// also INSERT, UPDATE and DELETE.
//
// # Tables
//
//	objects  key, version, body, size, modified, content_type, cache_control, data
//	chunks   body, position, bytes
//
// An object exists if its row does. Its body is the chunks with its body id, in the
// order of their positions: the first has position 0, each begins where the one
// before ends, and the last ends at size. Version is text that is different for each
// state that any object ever had. The id of a body is random and never used again;
// a write that puts a new body into an object gives it a new one. Keys sort by their bytes
// (COLLATE "C"), whatever the locale of the database.
//
// # Writing
//
// A write is one statement if its bytes are at most 1,052,480 (130 chunks), and one
// transaction otherwise, at READ COMMITTED. Its UPDATE names the version; of two
// that race, the second waits for the first and then finds another version: no row,
// which is ErrConflict. Create is INSERT ... ON CONFLICT DO NOTHING. The row comes
// first and then the chunks, so that a loser sends little.
//
// That statement is the call of a procedure of the schema. A session keeps the plans of what
// procedures do, also one behind PgBouncer, and makes them without looking at the bytes: to
// parse and plan the same in statements takes as long as all else that the server does for a
// small append. The procedures have no rights of their own.
//
// An append adds chunks and never changes one, so it costs what its tail costs: a page
// that grows to 1 MiB in a thousand appends is written once. A chunk has at most 8,096
// bytes and its column is STORAGE PLAIN: it is one row in one of the server's pages of
// 8 KiB. Larger values would go through TOAST, which cuts them into rows of 2 KB with
// an index entry each, and would try to compress pages that may be compressed already.
// Chunks are never updated, so only DELETE leaves dead rows to vacuum. The row in
// objects is updated by each append; its pages are half empty (fillfactor 50) and no
// index but that of the key exists, so that the update is a HOT one and the space is used
// again without vacuum.
//
// No statement has a name and no setting outlasts its transaction, since behind PgBouncer the
// session belongs to nobody.
//
// # Durability
//
// If synchronous_commit is off, for the server, the database, the user or the
// connection, a transaction that writes sets it to on, for itself. All other values
// stay: local, remote_write, on and remote_apply wait for the disk of this server at
// least; which standbys they wait for is the operator's choice. With fsync = off the server
// breaks all promises in a crash of the machine, and nothing here can help that.
//
// If the connection is lost after a statement was sent, nobody knows whether it was
// committed. The same write is then sent again: it waits for the first, should that
// still be at work, and if it finds another version it looks whether that is its own,
// which it is if the first one was committed. If somebody else has written the object
// since, the outcome stays unknown, and the error says so and matches none of package
// storage.
//
// # Errors
//
// For 30 seconds these are tried again: lost and refused connections, a server that
// shuts down or starts (57P01, 57P02, 57P03), one that has ended an idle connection (57P05,
// idle_session_timeout), too many connections (53300), serialization failures and
// deadlocks (40001, 40P01), and that no server is the primary, if the URL asks for it by
// target_session_attrs. A full disk (53100) is ErrFull, missing rights (42501) are
// ErrPermission, a missing table or procedure (42P01, 42883) is ErrLayout. A statement that the server
// cancels (57014, statement_timeout), a lock that does not come (55P03, lock_timeout), a
// body that comes too slowly (25P03, idle_in_transaction_session_timeout) and a read-only
// server (25006, a standby) are errors that say so.
//
// A connection over which nothing comes for 30 seconds, not even what the network itself has
// to answer, is lost: the machine at its other side is gone.
//
// # Reading
//
// Get reads the row and the first 259,072 bytes (32 chunks) of the body in one
// statement, and the rest as it is read, as many at a time, without a transaction and
// without a connection in between. A body of one batch is thus whole whatever happens; a longer one
// that is replaced or deleted meanwhile ends in an error, since its chunks are gone and no
// others have its id.
//
// # Notifications
//
// After each commit the key is sent by NOTIFY on the channel SCHEMA_objects, such as
// "feedctl_objects"; an empty payload stands for any key. It is sent after the
// transaction and not in it, because the server commits transactions with
// notifications one at a time, for all databases. A hint that is lost is no harm; see
// [storage.Watcher].
//
// Watch listens on one connection, beside the pool, which it opens again when it is
// lost. Where LISTEN cannot work, it says so once in the log and sends a hint
// every second instead: on a standby, and behind a PgBouncer, which is
// recognised by a session that is not the client's own (pg_backend_pid).
package postgres
