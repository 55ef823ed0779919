package postgres

import (
	"strconv"
	"strings"
	"sync"
)

// chunkSize is the most bytes that a row of chunks holds: such a row fills one of
// the server's pages of 8 KiB.
const chunkSize = 8096

// channel is where hints are sent of keys that have changed.
func channel(schema string) string { return schema + "_objects" }

// tables are those of one schema, and what their users share.
type tables struct {
	sql     statements
	buffers *sync.Pool // of *[]byte, each of pieceSize
}

type statements struct {
	create, grow, replace, addChunks, remove string
	stat, open, read, list                   string
}

func newTables(schema string) tables {
	expand := strings.NewReplacer(
		"objects", schema+".objects", "chunks", schema+".chunks", "CHUNK", strconv.Itoa(chunkSize),
		// Whatever the server's or the user's setting is. Those that wait for more
		// than "on" are left alone.
		"DURABLE", "CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END",
	).Replace
	return tables{buffers: new(sync.Pool), sql: statements{
		create: expand(`
WITH o AS (
	INSERT INTO objects AS o (key, version, body, size, modified, content_type, cache_control, data)
	VALUES ($1, $2, $8, $3, clock_timestamp(), $4, $5, $6)
	ON CONFLICT DO NOTHING
	RETURNING o.body, 0::bigint AS position, DURABLE
), c AS (
	INSERT INTO chunks (body, position, bytes)
	SELECT o.body, o.position + i, substr($7::bytea, i + 1, CHUNK)
	FROM o, generate_series(0, length($7::bytea) - 1, CHUNK) AS i
)
SELECT body, position FROM o`),

		grow: expand(`
WITH o AS (
	UPDATE objects AS o
	SET version = $2, size = o.size + $3, modified = clock_timestamp(), content_type = $4, cache_control = $5, data = $6
	WHERE o.key = $1 AND o.version = $8
	RETURNING o.body, o.size - $3 AS position, DURABLE
), c AS (
	INSERT INTO chunks (body, position, bytes)
	SELECT o.body, o.position + i, substr($7::bytea, i + 1, CHUNK)
	FROM o, generate_series(0, length($7::bytea) - 1, CHUNK) AS i
)
SELECT body, position FROM o`),

		replace: expand(`
WITH old AS (
	SELECT key, body FROM objects WHERE key = $1 AND version = $8 FOR NO KEY UPDATE
), o AS (
	UPDATE objects AS o
	SET version = $2, body = $9, size = $3, modified = clock_timestamp(), content_type = $4, cache_control = $5, data = $6
	FROM old WHERE o.key = old.key
	RETURNING old.body AS old, o.body, 0::bigint AS position, DURABLE
), d AS (
	DELETE FROM chunks AS c USING o WHERE c.body = o.old
), c AS (
	INSERT INTO chunks (body, position, bytes)
	SELECT o.body, o.position + i, substr($7::bytea, i + 1, CHUNK)
	FROM o, generate_series(0, length($7::bytea) - 1, CHUNK) AS i
)
SELECT body, position FROM o`),

		addChunks: expand(`
INSERT INTO chunks (body, position, bytes)
SELECT $1::bigint, $2::bigint + i, substr($3::bytea, i + 1, CHUNK)
FROM generate_series(0, length($3::bytea) - 1, CHUNK) AS i`),

		remove: expand(`
WITH o AS (
	DELETE FROM objects AS o WHERE o.key = $1 AND o.version = $2 RETURNING o.body, DURABLE
), d AS (
	DELETE FROM chunks AS c USING o WHERE c.body = o.body
)
SELECT body FROM o`),

		stat: expand(`
SELECT version, size, modified, content_type, cache_control, data FROM objects WHERE key = $1`),

		// The metadata is in the first row only. A row of chunks begins less than
		// CHUNK bytes before its last byte.
		open: expand(`
SELECT o.body, o.version, o.size, o.modified, first.*, c.position, c.bytes
FROM objects AS o
LEFT JOIN chunks AS c ON c.body = o.body AND c.position > $2::bigint - CHUNK AND c.position < $3 AND c.position + length(c.bytes) > $2
LEFT JOIN LATERAL (SELECT o.content_type, o.cache_control, o.data) AS first ON c.position <= $2 OR c.position IS NULL
WHERE o.key = $1 ORDER BY c.position`),

		read: expand(`
SELECT position, bytes FROM chunks WHERE body = $1 AND position >= $2 AND position < $3 ORDER BY position`),

		// No character of a key is as great as "~".
		list: expand(`
SELECT key, size, modified FROM objects
WHERE key >= $1 AND key < $1 || '~' AND key > $2 ORDER BY key LIMIT $3`),
	}}
}

// buffer returns a buffer for a piece of a body.
func (t tables) buffer() *[]byte {
	if b, ok := t.buffers.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, pieceSize)
	return &b
}
