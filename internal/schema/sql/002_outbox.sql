-- The transactional outbox: events that applications publish in their own
-- transactions, and the state of the runner that moves them to feeds.

-- publishable checks that an event can be published, so that inserting an invalid one
-- fails. One function is much cheaper than a constraint for each column.
CREATE FUNCTION {{.schema}}.outbox_check(
	feed text, key text, op text, content_type text, headers jsonb, content_id text
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
	wrong text := CASE
		WHEN length(feed) > 100 OR feed COLLATE "C" !~ '^[A-Za-z0-9][A-Za-z0-9._-]*$' OR strpos(feed, '..') > 0 THEN
			'feed must be 1 to 100 of A-Z a-z 0-9 . _ - without .., beginning with a letter or a digit'
		WHEN octet_length(key) NOT BETWEEN 1 AND 4096 THEN
			'key must have 1 to 4096 bytes'
		WHEN op NOT IN ('PUT', 'PATCH', 'DELETE') THEN
			'op must be PUT, PATCH or DELETE'
		WHEN length(content_type) > 256 OR content_type COLLATE "C" !~ '^[!-~]([ -~]*[!-~])?$' THEN
			'content_type must be up to 256 printable ASCII characters'
		WHEN length(content_id) > 1024 OR content_id COLLATE "C" !~ '^[!-~]+$' THEN
			'content_id must be up to 1024 printable ASCII characters without spaces'
	END;
BEGIN
	IF wrong IS NULL AND headers IS NOT NULL THEN
		IF jsonb_typeof(headers) <> 'object' OR octet_length(headers::text) > 16384 THEN
			wrong := 'headers must be a JSON object of up to 16384 bytes';
		ELSIF EXISTS (
			SELECT FROM jsonb_each(headers) AS h (name, value)
			WHERE jsonb_typeof(value) <> 'string'
				-- Names are tokens (RFC 9110, section 5.6.2) that have no column of their own.
				OR name COLLATE "C" !~ '^[-!#$%&''*+.^_`|~0-9A-Za-z]+$'
				OR lower(name) IN ('last-modified', 'content-type', 'content-id', 'operation-type', 'content-location', 'content-length')
				OR value #>> '{}' ~ '[\r\n]|^[ \t]|[ \t]$')
		THEN
			wrong := 'headers must have names of headers that are no columns, and strings without line breaks';
		END IF;
	END IF;
	IF wrong IS NOT NULL THEN
		RAISE check_violation USING MESSAGE = 'event cannot be published: ' || wrong;
	END IF;
	RETURN true;
END $$;

-- Rows are inserted, read once and deleted, never updated. An id is drawn when the
-- row is inserted and, since sessions cache none, exceeds all drawn before.
-- Bodies are not compressed, so that long ones can be read in pieces.
CREATE TABLE {{.schema}}.outbox (
	feed         text COLLATE "C" NOT NULL,
	id           bigint GENERATED ALWAYS AS IDENTITY (CACHE 1),
	key          text,
	op           text COLLATE "C" NOT NULL DEFAULT 'PUT',
	body         bytea NOT NULL DEFAULT '',
	content_type text COLLATE "C" NOT NULL DEFAULT 'application/json',
	headers      jsonb,
	content_id   text COLLATE "C" NOT NULL DEFAULT '<' || gen_random_uuid() || '@outbox>',
	created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (feed, id),
	CONSTRAINT outbox_check CHECK ({{.schema}}.outbox_check(feed, key, op, content_type, headers, content_id))
) WITH (
	autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0,
	autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000000
);
ALTER TABLE {{.schema}}.outbox ALTER COLUMN body SET STORAGE EXTERNAL;

-- publish adds an event to a feed as part of the caller's transaction and returns
-- its Content-ID. The caller only needs INSERT on the table.
CREATE FUNCTION {{.schema}}.publish(
	feed text, key text, op text, body bytea,
	content_type text DEFAULT 'application/octet-stream', headers jsonb DEFAULT NULL, content_id text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	publish.content_id := coalesce(publish.content_id, '<' || gen_random_uuid() || '@outbox>');
	INSERT INTO {{.schema}}.outbox (feed, key, op, body, content_type, headers, content_id)
	VALUES (publish.feed, publish.key, coalesce(upper(publish.op), 'PUT'), coalesce(publish.body, ''),
		coalesce(publish.content_type, 'application/octet-stream'), publish.headers, publish.content_id);
	RETURN publish.content_id;
END $$;

CREATE FUNCTION {{.schema}}.publish(
	feed text, key text, op text DEFAULT 'PUT', body text DEFAULT '',
	content_type text DEFAULT 'application/json', headers jsonb DEFAULT NULL, content_id text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	publish.content_id := coalesce(publish.content_id, '<' || gen_random_uuid() || '@outbox>');
	INSERT INTO {{.schema}}.outbox (feed, key, op, body, content_type, headers, content_id)
	VALUES (publish.feed, publish.key, coalesce(upper(publish.op), 'PUT'), convert_to(coalesce(publish.body, ''), 'UTF8'),
		coalesce(publish.content_type, 'application/json'), publish.headers, publish.content_id);
	RETURN publish.content_id;
END $$;

CREATE FUNCTION {{.schema}}.publish(
	feed text, key text, op text, body json,
	content_type text DEFAULT 'application/json', headers jsonb DEFAULT NULL, content_id text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN {{.schema}}.publish(publish.feed, publish.key, publish.op, publish.body::text, publish.content_type, publish.headers, publish.content_id);
END $$;

CREATE FUNCTION {{.schema}}.publish(
	feed text, key text, op text, body jsonb,
	content_type text DEFAULT 'application/json', headers jsonb DEFAULT NULL, content_id text DEFAULT NULL
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN {{.schema}}.publish(publish.feed, publish.key, publish.op, publish.body::text, publish.content_type, publish.headers, publish.content_id);
END $$;

-- The progress of each feed. A runner locks the feed's row while it moves events.
--
-- If the pages are in another store, a batch is recorded here before it is published:
-- ids are its rows, pending is the feed's checkpoint once they are published, and
-- checkpoint the one before. They are not on pages before page.
CREATE TABLE {{.schema}}.outbox_feed (
	feed        text COLLATE "C" PRIMARY KEY,
	destination text NOT NULL CHECK (destination IN ('database', 'store')),
	epoch       text NOT NULL,
	batch       bigint NOT NULL DEFAULT 0,
	checkpoint  text NOT NULL DEFAULT '',
	pending     text,
	ids         bigint[],
	page        bigint NOT NULL DEFAULT 0,
	CHECK ((pending IS NULL) = (ids IS NULL))
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The runner of each feed, which renews its lease. Only liveness depends on it.
CREATE TABLE {{.schema}}.outbox_lease (
	feed   text COLLATE "C" PRIMARY KEY,
	runner text NOT NULL,
	until  timestamptz NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Rows that cannot be published, and why.
CREATE TABLE {{.schema}}.outbox_quarantine (
	feed           text COLLATE "C" NOT NULL,
	id             bigint NOT NULL,
	key            text,
	op             text,
	body           bytea,
	content_type   text,
	headers        jsonb,
	content_id     text,
	created_at     timestamptz,
	reason         text NOT NULL,
	quarantined_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (feed, id)
);

-- The captured tables. The trigger function of the row with id N is capture_N.
CREATE TABLE {{.schema}}.outbox_capture (
	id       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	feed     text COLLATE "C" NOT NULL UNIQUE,
	relation regclass NOT NULL UNIQUE,
	key      text[] NOT NULL,
	columns  text[]
);
