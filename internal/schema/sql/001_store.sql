-- The tables of package storage/postgres, whose documentation explains them.

-- One row per object. An append updates the row, so pages leave room for its next
-- version (HOT).
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

-- A chunk stays within its page, neither compressed nor moved out of line.
ALTER TABLE {{.schema}}.chunks ALTER COLUMN bytes SET STORAGE PLAIN;
