// Package postgres is a sink that keeps one row for each key in a table of a
// PostgreSQL database, version 14 or newer, with the encoding UTF8.
//
// # The table
//
// Without columns of one's own, a table has these:
//
//	key            text, primary key
//	content_type   text
//	last_modified  timestamptz, with whole seconds
//	content_id     text; empty in snapshots
//	headers        json: the name of each other header field to the array of its values
//	body           json, as it was written, digits and white space too: the body, if it
//	               is JSON by its content type and in fact, up to 1 MiB; otherwise null
//	bytes          bytea: any other body; otherwise null
//
// A PUT replaces the row, a DELETE removes it, a PATCH changes body,
// last_modified and content_id; the content type and the headers remain those of
// the PUT. Columns, constraints and indexes that others add are left alone, as
// long as rows can be inserted without them; what they refuse is an error that names the
// entity. A column of type json may be made jsonb,
// which is faster to query, but does not keep the text and refuses U+0000.
//
// PostgreSQL's text holds neither U+0000 nor bytes that are not UTF-8. In key,
// content_type and content_id each such byte, and U+001A, is written as U+001A and two
// hexadecimal digits. A key must fit into an index: about 2,700 bytes, after
// compression.
//
// # Columns of one's own
//
// [Options.Columns] names columns and where their values come from, joined by commas:
//
//	id=/id:bigint,name=/name:text not null,price=/price:numeric(10,2),tags=/tags:text[]
//
// Before the colon is a JSON Pointer (RFC 6901) into the body; "" is the whole body.
// After it is the name of a type, which may be followed by "not null". "@key",
// "@content_id" and "@last_modified" in place of a pointer take what the entity says.
// The column of @key is the primary key; if there is none, a column "key" of type text is.
//
// A string is read as PostgreSQL reads a text of the type, whatever the settings of the
// database: without a time zone it is UTC, and ambiguous dates begin with the month. A
// number is read by its digits, true and false as such. A null, or nothing, is NULL. Types json and jsonb take any value;
// arrays and composite types take arrays and objects as json_to_record does. As
// in any INSERT, numeric(p,s) rounds to its scale, while what is too long or out of range
// is refused.
//
// A table that is there must have these columns with these types, whatever their length
// and precision. It may have others that have a default, take NULL or are filled by a
// trigger. It is no view and no foreign table, and not UNLOGGED: a crash of the server would
// empty it and leave the position.
//
// What a column, a constraint of the table or a trigger (RAISE EXCEPTION) refuses is put
// into the table feedctl_quarantine, with its Content-ID and the reason, and the feed goes on: the row
// stays as it was before. So is what is not JSON or larger than 1 MiB. With
// [Options.Strict] the first of these stops the feed. Of several entities for a key
// within a batch, one that the last one has replaced may not be looked at.
//
// PATCH needs a column with the whole body, such as doc=:jsonb. Without one it is
// an error. It changes what is in the table, and not what was put into quarantine before.
//
// # Exactly once
//
// A batch is one transaction: rows are copied (COPY, binary) into a temporary table of
// the session, the row in feedctl_positions is moved, if it is still what this sink left,
// and the rows are merged into the table. It is also kept by the sink until it is
// committed, in memory, and beyond 32 MiB or for bodies above 1 MiB in a temporary file, so that
// what fails for a while (a restart of the server, a serialization failure, a deadlock) can be
// tried again for 30 seconds. If the outcome of a COMMIT is not known, the row tells it.
// Of a batch of more than 256 KiB the first rows are copied while others are still applied.
//
// # One consumer at a time
//
// A consumer is known by its table and [Options.Name]. A second one, on any host, is
// refused with [sink.ErrLocked]: the session of the first has an advisory lock. It is the
// sink's only connection, and in no transaction while the sink waits. The server's
// idle_session_timeout does not apply to it. Through a pooler, such as PgBouncer in
// transaction mode, sessions are shared: there a second connection has the lock, in a
// transaction that stays open and does nothing else. That has neither a snapshot nor a
// transaction ID, so it does not keep anything from being vacuumed.
// A consumer that has lost this lock, and does not know, can no longer commit
// once another has taken it: the row of the position names its owner.
//
// Consumers with different names may write to one table. Their feeds must not have keys
// in common.
//
// # Limits
//
// A body has at most [MaxBody] bytes, about 1 GB: PostgreSQL's limit for a value. The
// server holds such a value in memory several times.
package postgres
