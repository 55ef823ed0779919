// Package postgres is a driver for [storage.Store] that keeps objects in a
// PostgreSQL database, version 14 or newer. Any number of processes may use it
// concurrently, including through PgBouncer in transaction mode.
//
// # URL
//
//	postgres://USER:PASSWORD@HOST:PORT/DATABASE?schema=feedctl
//
// The scheme may also be "postgresql". The parameter schema names the schema that holds
// the tables, by default [schema.Default]. The other parameters are those of libpq
// (sslmode, host for a socket's directory, target_session_attrs=read-write with
// several hosts for failover, ...), those of pgxpool (pool_max_conns, by default the
// number of CPUs but at least 4; pool_max_conn_lifetime, ...), and settings of the
// server, such as statement_timeout. Missing values come from the environment (PGHOST,
// PGPASSWORD, PGSSLMODE, ...), as with libpq.
//
// [Create] creates the schema if it does not exist, and [Migrate] migrates it to the newest
// version; nothing else changes it. See package schema for the versions that can be used without
// migration. To read, a user needs USAGE of the schema and SELECT on its tables; to write, also
// INSERT, UPDATE and DELETE.
//
// # Tables
//
//	objects  key, version, body, size, modified, content_type, cache_control, data
//	chunks   body, position, bytes
//
// An object exists if its row exists. Its body consists of the chunks with its body ID, ordered by
// position: the first has position 0, each begins where the one before it ends, and the last ends
// at size. Version is text, unique to each state of any object. Body IDs are random and never
// reused; Create and Replace assign a new one. Keys sort by their bytes (COLLATE "C"),
// independently of the locale of the database.
//
// # Writing
//
// A write of at most 1,052,480 bytes (130 chunks) is one statement; a larger one is one
// transaction, at READ COMMITTED. The UPDATE applies only to a row with the given version. Of two
// concurrent writes, the second waits for the first and then finds no row with its version, so the
// error is ErrConflict. Create is INSERT ... ON CONFLICT DO NOTHING. The row is written before the
// chunks, so that a conflict is detected early.
//
// The statement calls a procedure of the schema. Sessions, even behind PgBouncer, cache
// the plans of procedures. Without a procedure, parsing and planning the SQL for each write would
// take as long as everything else that the server does for a small append. The procedures run with
// the rights of the caller.
//
// An append adds chunks but never changes any, so its cost depends only on the tail: each byte of a
// page that grows to 1 MiB in a thousand appends is written once. A chunk has at most 8,096 bytes
// and its column is STORAGE PLAIN, so that each chunk is one row that fills one of the server's
// pages of 8 KiB. Larger values would go through TOAST, which splits them into rows of 2 KB with an
// index entry each, and would try to compress pages that may be compressed already. Chunks are
// never updated, so only DELETE leaves dead rows to vacuum. The row in objects is updated by each
// append. Because of a fillfactor of 50, and since only the key is indexed, this is a HOT update,
// whose space is reused without vacuum.
//
// The server needs about 35 µs of CPU time for each chunk, whatever statement inserts it (a
// procedure, INSERT ... SELECT, COPY): for the row, its WAL and a new page of the file.
//
// Statements are unnamed and no setting outlasts its transaction, since sessions are shared behind
// PgBouncer.
//
// # Durability
//
// If synchronous_commit is off, for the server, the database, the user or the
// connection, each transaction that writes sets it to on for itself. All other values are kept:
// with local, remote_write, on and remote_apply, a commit waits at least for the disk of this
// server; which standbys it also waits for is the operator's choice. With fsync = off, a crash of
// the server's machine can lose or damage anything.
//
// If the connection is lost after a statement was sent, it is unknown whether the statement was
// committed. The same write is then sent again, and waits for the first attempt if that is still
// running. If the object then has the version of this write, the first attempt was committed. If
// another writer has changed the object in the meantime, the outcome remains unknown; the error
// says so and matches no error of package storage.
//
// # Errors
//
// These errors are retried for 30 seconds: lost and refused connections, a server that
// shuts down or starts (57P01, 57P02, 57P03), an idle connection closed by the server
// (57P05, idle_session_timeout), too many connections (53300), serialization failures and
// deadlocks (40001, 40P01), and no primary among the servers, if the URL requires one with
// target_session_attrs. The error is ErrFull for a full disk (53100), ErrPermission for missing
// rights (42501), and ErrLayout for a missing table or procedure (42P01, 42883). To some other
// errors an explanation is added: a cancelled statement (57014, statement_timeout), a lock that
// timed out (55P03, lock_timeout), a body that arrived too slowly (25P03,
// idle_in_transaction_session_timeout) and a read-only server (25006, a standby).
//
// A connection on which nothing arrives for 30 seconds, not even acknowledgements of TCP
// keep-alives, is considered lost.
//
// # Reading
//
// Get reads the row and the first 259,072 bytes (32 chunks) of the body in one
// statement. The rest is read on demand in batches of the same size, without a transaction, and
// without holding a connection between batches. A body that fits into one batch is therefore always
// read completely. Reading a longer body fails if the object is replaced or deleted meanwhile,
// since the chunks are gone and the ID of the body is not reused.
//
// # Notifications
//
// After each commit the key is sent with NOTIFY on the channel SCHEMA_objects, such as
// "feedctl_objects"; an empty payload means that any key may have changed. The notification is sent
// after the transaction rather than in it, because the server serializes the commits of
// transactions with notifications, across all databases. The loss of a notification does no harm;
// see [storage.Watcher].
//
// Watch listens on one connection outside the pool, and reconnects if it is lost. LISTEN works
// neither on a standby nor behind PgBouncer, which Watch detects because the session is not the
// client's own (pg_backend_pid). In these cases, Watch logs a warning once and notifies every
// second instead.
package postgres
