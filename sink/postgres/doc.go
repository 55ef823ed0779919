// Package postgres is a sink that keeps one row for each key in a table of a
// PostgreSQL database, version 14 or newer, with the encoding UTF8.
//
// # The table
//
// Without custom columns, a table has these:
//
//	key            text COLLATE "C", primary key; in tables of earlier versions, the collation of
//	               the database
//	content_type   text
//	last_modified  timestamptz, with whole seconds
//	content_id     text; empty in snapshots
//	headers        json: maps the name of each other header field to the array of its values
//	body           json: a body of up to 1 MiB that is JSON by its content type and in fact, with
//	               its digits and white space as they were written; otherwise null
//	bytes          bytea: any other body; otherwise null
//
// A PUT replaces the row, a DELETE removes it, and a PATCH changes body, last_modified and content_id,
// while the content type and the headers remain those of the PUT. You may add columns, constraints and
// indexes, as long as rows can be inserted without them; if they reject a row, the error names the
// entity. A column of type json may be changed to jsonb, which is faster to query but does not preserve
// the text and rejects U+0000.
//
// PostgreSQL's text cannot hold U+0000 or bytes that are not UTF-8. In key,
// content_type and content_id these bytes, and U+001A, are written as U+001A and two
// hexadecimal digits. A key must fit into an index: about 2,700 bytes, after
// compression.
//
// # Custom columns
//
// [Options.Columns] lists columns and the sources of their values, separated by commas:
//
//	id=/id:bigint,name=/name:text not null,price=/price:numeric(10,2),tags=/tags:text[]
//
// Before the colon is a JSON Pointer (RFC 6901) into the body; "" is the whole body.
// After the colon is the name of a type, which may be followed by "not null". In place of a pointer,
// "@key", "@content_id" and "@last_modified" stand for properties of the entity. The column of @key is
// the primary key; the default is a column "key" of type text. If the type of that column is text,
// feedctl creates it with COLLATE "C".
//
// A string is converted by PostgreSQL's text input of the type, independently of the settings of
// the database: the default time zone is UTC, and ambiguous dates begin with the month. Numbers are
// converted from their digits. A null or missing value is NULL. Types json and jsonb take any
// value; arrays and composite types take arrays and objects as json_to_record does. As in any
// INSERT, numeric(p,s) rounds to its scale, while values that are too long or out of range are
// rejected.
//
// An existing table must have these columns with these types, of any length and
// precision. It may have other columns that have a default, allow NULL or are set by a trigger. The
// table must not be a view, a foreign table, or UNLOGGED: after a crash, the server would empty an
// unlogged table but keep the position.
//
// Entities that a column, a constraint of the table or a trigger (RAISE EXCEPTION) rejects
// are recorded in the table feedctl_quarantine, with the Content-ID and the reason, and the
// consumer continues: the row remains as it was. The same applies to bodies that are not
// JSON or larger than 1 MiB. With [Options.Strict] the first such entity is an error. If a batch has
// several entities for a key, those that the last one replaces are not necessarily checked.
//
// PATCH needs a column with the whole body, such as doc=:jsonb. Without such a column, a PATCH is
// an error. A PATCH changes the row in the table, even if a newer entity for its key is in quarantine.
//
// # Exactly once
//
// A batch is one transaction: rows are copied (COPY, binary) into a temporary table of
// the session, the position in feedctl_positions is updated if it is still the one that
// this sink wrote, and the rows are merged into the table. Until the batch is committed, the sink
// also keeps it in memory or, beyond 32 MiB and for bodies above 1 MiB, in a temporary file, so
// that transient errors (a restart of the server, a serialization failure, a deadlock) can be
// retried for 30 seconds. If the outcome of a COMMIT is unknown, the stored position shows whether it
// took effect. In a batch of more than 256 KiB the first rows are copied while others are still being
// applied.
//
// Such a batch is copied straight into a table of whole entities, without the temporary table, as long
// as all keys since the sink was opened have been new. This makes it faster to fill a table from a
// snapshot. After the first key that is not new, and always through a pooler, every batch goes through
// the temporary table.
//
// While a snapshot replaces the data after a gap, the table feedctl_seen holds the keys of the snapshot.
// The transaction that ends the snapshot removes all other rows, unless the table has several consumers.
//
// # One consumer at a time
//
// A consumer is identified by its table and [Options.Name]. A second consumer with the same table and
// name, on any host, gets [sink.ErrLocked]: the session of the first holds an advisory lock. The sink
// has no other connection, and no transaction while it waits. The server's idle_session_timeout does not
// apply to this connection. Through a pooler, such as PgBouncer in transaction mode, sessions are
// shared. In this case, a second connection holds the lock, in a transaction that stays open and does
// nothing else. That transaction has neither a snapshot nor a transaction ID, so it does not delay
// vacuuming. A consumer that has lost its lock without noticing can no longer commit once another has
// taken it, since the row of the position names the consumer that owns it.
//
// Consumers with different names may write to one table. Their feeds must not have keys
// in common.
//
// # Limits
//
// A body has at most [MaxBody] bytes, about 1 GB: PostgreSQL's limit for a value. The
// server holds several copies of a value in memory.
package postgres
