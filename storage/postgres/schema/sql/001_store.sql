-- What package storage/postgres keeps; its documentation says why it is so.

-- One row for each object. An append updates its row, so the pages have room for the
-- next state beside the present one (HOT).
CREATE TABLE {{.schema}}.objects (
	key           text COLLATE "C" PRIMARY KEY,
	version       text        NOT NULL,
	body          bigint      NOT NULL,
	size          bigint      NOT NULL CHECK (size >= 0),
	modified      timestamptz NOT NULL,
	content_type  text        NOT NULL,
	cache_control text        NOT NULL,
	data          bytea       NOT NULL
) WITH (fillfactor = 50);

-- The bytes of bodies. Rows are inserted and deleted, never updated.
CREATE TABLE {{.schema}}.chunks (
	body     bigint NOT NULL,
	position bigint NOT NULL,
	bytes    bytea  NOT NULL,
	PRIMARY KEY (body, position)
);

-- A chunk is a row within its page: neither compressed nor moved out of line.
ALTER TABLE {{.schema}}.chunks ALTER COLUMN bytes SET STORAGE PLAIN;
