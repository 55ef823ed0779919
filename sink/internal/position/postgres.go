// Package position has the statements by which sinks keep their position in the tables
// of a database, so that each way to that database reads what others have written.
package position

// Table is the name of the table in every database.
const Table = "feedctl_positions"

// Statements for PostgreSQL; $1 and $2 are the table that the sink writes, empty for rows
// of the user's own, and the consumer's name. %s is the table of positions.
const (
	// PostgresSetUp lets one transaction at a time make tables.
	PostgresSetUp = `SELECT pg_advisory_xact_lock(hashtextextended('feedctl sink tables', 0))`
	// PostgresCreate makes the table, unless it is there.
	PostgresCreate = `CREATE TABLE IF NOT EXISTS %s (
		table_name text NOT NULL,
		name       text NOT NULL,
		position   text NOT NULL,
		owner      text NOT NULL,
		commits    bigint NOT NULL,
		PRIMARY KEY (table_name, name))`
	// PostgresEnter makes the row of a consumer, unless it is there.
	PostgresEnter = `INSERT INTO %s (table_name, name, position, owner, commits) VALUES ($1, $2, '{}', '', 0) ON CONFLICT DO NOTHING`
	// PostgresTake makes $3 the owner, and waits for a transaction of the one before, who
	// can commit nothing more.
	PostgresTake = `UPDATE %s SET owner = $3 WHERE table_name = $1 AND name = $2 RETURNING position, commits`
	// PostgresMove moves the position to $5, if $3 is still the owner and $4 the number of its
	// commits so far.
	PostgresMove = `UPDATE %s SET position = $5, commits = commits + 1 WHERE table_name = $1 AND name = $2 AND owner = $3 AND commits = $4`
)

// lockWait is how long a sink waits for one that has just ended.
const lockWait = "1s"

// PostgresKeepAlive has a host that is gone noticed within half a minute, so that what it has
// locked is free again. It is for a transaction.
const PostgresKeepAlive = `SELECT set_config('tcp_keepalives_idle', '15', true),
	set_config('tcp_keepalives_interval', '5', true), set_config('tcp_keepalives_count', '3', true)`

// PostgresUndisturbed has the server leave the idle holder of the lock alone, and limits how
// long it waits for the lock. Not every version has all of the settings.
const PostgresUndisturbed = `SELECT set_config(name, value, true) FROM (VALUES
	('idle_in_transaction_session_timeout', '0'), ('transaction_timeout', '0'), ('statement_timeout', '0'), ('lock_timeout', '` + lockWait + `')
) AS settings (name, value) JOIN pg_catalog.pg_settings USING (name)`

// PostgresAttended is PostgresKeepAlive and PostgresUndisturbed for a session that holds the lock while no
// transaction is open.
const PostgresAttended = `SELECT set_config('tcp_keepalives_idle', '15', false), set_config('tcp_keepalives_interval', '5', false),
	set_config('tcp_keepalives_count', '3', false), set_config('idle_session_timeout', '0', false)`

// PostgresLock is the name of the advisory lock of a consumer, of which
// hashtextextended(name, 0) is the key.
func PostgresLock(schema, table, name string) string {
	return "feedctl sink " + schema + "." + table + " " + name
}
