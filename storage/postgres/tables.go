package postgres

import (
	"strconv"
	"strings"
	"sync"
)

// chunkSize is the maximum size of a chunk, in bytes: its row fills one of the server's
// pages of 8 KiB.
const chunkSize = 8096

// channel returns the channel for notifications of changed keys.
func channel(schema string) string { return schema + "_objects" }

// tables holds the statements for the tables of one schema, and a pool of buffers.
type tables struct {
	sql     statements
	buffers *sync.Pool // of *[]byte, each of pieceSize
}

type statements struct {
	create, grow, replace, addChunks, remove string
	stat, open, read, list, names, latest    string
}

func newTables(schema string) tables {
	expand := strings.NewReplacer(
		"objects", schema+".objects", "chunks", schema+".chunks", "CHUNK", strconv.Itoa(chunkSize),
		// Overrides the value "off", wherever it is set. Other values are kept.
		"DURABLE", "CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END",
	).Replace
	call := func(procedure, args string) string {
		return "CALL " + schema + "." + procedure + "(" + expand(args) + ")"
	}
	return tables{buffers: new(sync.Pool), sql: statements{
		create:    call("create_object", "$1, $2, $3, $4, $5, $6, $7, CHUNK, $8, NULL"),
		grow:      call("append_object", "$1, $8, $2, $3, $4, $5, $6, $7, CHUNK, NULL, NULL"),
		replace:   call("replace_object", "$1, $8, $2, $3, $4, $5, $6, $7, CHUNK, $9, NULL"),
		addChunks: call("add_chunks", "$1, $2, $3, CHUNK"),

		remove: expand(`
WITH o AS (
	DELETE FROM objects AS o WHERE o.key = $1 AND o.version = $2 RETURNING o.body, DURABLE
), d AS (
	DELETE FROM chunks AS c USING o WHERE c.body = o.body
)
SELECT body FROM o`),

		stat: expand(`
SELECT version, size, modified, content_type, cache_control, data FROM objects WHERE key = $1`),

		// Only the first row has the metadata. The first byte of a chunk is less than CHUNK bytes
		// before its last byte.
		open: expand(`
SELECT o.body, o.version, o.size, o.modified, first.*, c.position, c.bytes
FROM objects AS o
LEFT JOIN chunks AS c ON c.body = o.body AND c.position > $2::bigint - CHUNK AND c.position < $3 AND c.position + length(c.bytes) > $2
LEFT JOIN LATERAL (SELECT o.content_type, o.cache_control, o.data) AS first ON c.position <= $2 OR c.position IS NULL
WHERE o.key = $1 ORDER BY c.position`),

		read: expand(`
SELECT position, bytes FROM chunks WHERE body = $1 AND position >= $2 AND position < $3 ORDER BY position`),

		// All characters of a key are less than "~".
		list: expand(`
SELECT key, size, modified FROM objects
WHERE key >= $1 AND key < $1 || '~' AND key > $2 ORDER BY key LIMIT $3`),

		// Selects the first key of each name, and each key without a name, with an index search for
		// each. Each search begins after all keys of the previous name or, if the previous key has
		// no name, after that key.
		names: expand(`
WITH RECURSIVE first (n, key) AS (
	SELECT 1, (SELECT o.key FROM objects AS o WHERE o.key >= $1 AND o.key < $1 || '~' AND o.key > $2 ORDER BY o.key LIMIT 1)
	UNION ALL
	SELECT f.n + 1, (
		SELECT o.key FROM objects AS o
		WHERE o.key < $1 || '~' AND o.key > $1 || CASE strpos(f.rest, '/')
			WHEN 0 THEN f.rest ELSE split_part(f.rest, '/', 1) || '0' END
		ORDER BY o.key LIMIT 1)
	FROM (SELECT n, substr(key, length($1) + 1) AS rest FROM first) AS f WHERE f.rest IS NOT NULL AND f.n < $3
)
SELECT key, 0::bigint, now() FROM first WHERE key IS NOT NULL ORDER BY n`),

		latest: expand(`
SELECT p.prefix, encode(sha256(convert_to(string_agg(o.key || ' ' || o.version, ' ' ORDER BY o.key), 'UTF8')), 'base64')
FROM unnest($1::text[]) AS p (prefix)
CROSS JOIN LATERAL (SELECT key, version FROM objects WHERE key >= p.prefix AND key < p.prefix || '~' ORDER BY key DESC LIMIT $2) AS o
GROUP BY p.prefix`),
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
