// Package position holds the SQL statements with which sinks store their positions, so that all sinks for a
// database use the same table.
package position

// Table is the name of the table in every database.
const Table = "feedctl_positions"

// Statements for PostgreSQL. $1 is the table that the sink writes, empty for custom tables,
// $2 the consumer's name. %s is the table of positions.
const (
	// PostgresSetUp lets only one transaction at a time create tables.
	PostgresSetUp = `SELECT pg_advisory_xact_lock(hashtextextended('feedctl sink tables', 0))`
	// PostgresCreate creates the table if it does not exist.
	PostgresCreate = `CREATE TABLE IF NOT EXISTS %s (
		table_name text NOT NULL,
		name       text NOT NULL,
		position   text NOT NULL,
		owner      text NOT NULL,
		commits    bigint NOT NULL,
		PRIMARY KEY (table_name, name))`
	// PostgresEnter inserts the row of a consumer if it does not exist.
	PostgresEnter = `INSERT INTO %s (table_name, name, position, owner, commits) VALUES ($1, $2, '{}', '', 0) ON CONFLICT DO NOTHING`
	// PostgresTake makes $3 the owner. It waits for a transaction of the previous owner, who
	// can no longer commit after that.
	PostgresTake = `UPDATE %s SET owner = $3 WHERE table_name = $1 AND name = $2 RETURNING position, commits`
	// PostgresMove moves the position to $5 if $3 is still the owner and $4 the number of its
	// commits so far.
	PostgresMove = `UPDATE %s SET position = $5, commits = commits + 1 WHERE table_name = $1 AND name = $2 AND owner = $3 AND commits = $4`
)

// lockWait is how long a sink waits for the lock of one that has just ended.
const lockWait = "1s"

// PostgresKeepAlive makes the server notice within half a minute that a host is gone, and
// release its locks. It applies to one transaction.
const PostgresKeepAlive = `SELECT set_config('tcp_keepalives_idle', '15', true),
	set_config('tcp_keepalives_interval', '5', true), set_config('tcp_keepalives_count', '3', true)`

// PostgresUndisturbed turns off the server's timeouts for the idle holder of the lock, and
// limits how long it waits for the lock. Not every version has all of the settings.
const PostgresUndisturbed = `SELECT set_config(name, value, true) FROM (VALUES
	('idle_in_transaction_session_timeout', '0'), ('transaction_timeout', '0'), ('statement_timeout', '0'), ('lock_timeout', '` + lockWait + `')
) AS settings (name, value) JOIN pg_catalog.pg_settings USING (name)`

// PostgresAttended is PostgresKeepAlive and PostgresUndisturbed for a session that holds the lock while no
// transaction is open.
const PostgresAttended = `SELECT set_config('tcp_keepalives_idle', '15', false), set_config('tcp_keepalives_interval', '5', false),
	set_config('tcp_keepalives_count', '3', false), set_config('idle_session_timeout', '0', false)`

// PostgresLock returns the name of the advisory lock of a consumer. The key of the lock is
// hashtextextended(name, 0).
func PostgresLock(schema, table, name string) string {
	return "feedctl sink " + schema + "." + table + " " + name
}

// Notes is the name of the table of notes for [consumer.Backfill].
const Notes = "feedctl_notes"

// Statements on the table of notes: patches that are held, and with n = 0 the keys that were
// deleted. $1 and $2 are as above; %s is the table.
const (
	PostgresCreateNotes = `CREATE TABLE %s (
		table_name text NOT NULL,
		name       text NOT NULL,
		key        text NOT NULL,
		n          bigint NOT NULL,
		patch      bytea,
		PRIMARY KEY (table_name, name, key, n))`
	// PostgresNote adds notes $5 with the numbers $4 for the keys $3.
	PostgresNote = `INSERT INTO %s (table_name, name, key, n, patch)
		SELECT $1, $2, u.* FROM unnest($3::text[], $4::bigint[], $5::bytea[]) AS u ON CONFLICT DO NOTHING`
	// PostgresRelease removes the patches of the keys $3.
	PostgresRelease = `DELETE FROM %s WHERE table_name = $1 AND name = $2 AND key = ANY ($3::text[]) AND n <> 0`
	// PostgresHeld returns up to $5 patches of the key $3 after number $4.
	PostgresHeld = `SELECT n, patch FROM %s WHERE table_name = $1 AND name = $2 AND key = $3 AND n <> 0 AND n > coalesce($4::bigint, n - 1)
		ORDER BY n LIMIT $5`
	// PostgresRecall returns for each of the keys $3 whether there is a row (according to the expression %[2]s
	// on s.key), whether the key was deleted, and how many patches are held.
	PostgresRecall = `SELECT %[2]s,
			EXISTS (SELECT FROM %[1]s AS n WHERE n.table_name = $1 AND n.name = $2 AND n.key = s.key AND n.n = 0),
			(SELECT count(*) FROM %[1]s AS n WHERE n.table_name = $1 AND n.name = $2 AND n.key = s.key AND n.n <> 0)
		FROM unnest($3::text[]) WITH ORDINALITY AS s (key, i) ORDER BY s.i`
	PostgresRemoveNotes = `DELETE FROM %s WHERE table_name = $1 AND name = $2`
)

// Seen is the name of the table with the keys of a snapshot that replaces the data, for
// [consumer.Replacement].
const Seen = "feedctl_seen"

// Statements on the table of seen keys. $1 and $2 are as above; %s is the table. The empty key, which no
// entity has, stands for the replacement. The column fit is false if the table has rejected the row of the
// key; such a key might not even be a value of the column's type.
const (
	PostgresCreateSeen = `CREATE TABLE %s (
		table_name text NOT NULL,
		name       text NOT NULL,
		key        text NOT NULL,
		fit        boolean NOT NULL,
		PRIMARY KEY (table_name, name, key, fit))`
	PostgresForget = `DELETE FROM %s WHERE table_name = $1 AND name = $2`
	PostgresBegin  = `INSERT INTO %s (table_name, name, key, fit) VALUES ($1, $2, '', false)`
	// PostgresBegun returns a row if there is a replacement.
	PostgresBegun = `SELECT FROM %s WHERE table_name = $1 AND name = $2 AND key = '' AND NOT fit`
)

// PostgresShared returns a row if other consumers write to the table, too. %s is the table of positions.
const PostgresShared = `SELECT FROM %s WHERE table_name = $1 AND name <> $2 AND position <> '{}'`
