-- Procedures that write objects. Sessions cache the plans of their statements for all
-- clients, even those behind PgBouncer. Plans may be made while the tables are almost
-- empty and must also suit full ones: hence enable_seqscan = off.

-- add_chunks adds bytes to a body, in chunks of the given size. If synchronous_commit
-- is off, it is set to on for the rest of the transaction; stricter settings are kept.
CREATE PROCEDURE {{.schema}}.add_chunks(body bigint, start bigint, bytes bytea, chunk integer)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
	FOR i IN 0 .. length(bytes) - 1 BY chunk LOOP
		INSERT INTO {{.schema}}.chunks (body, position, bytes)
		VALUES (add_chunks.body, add_chunks.start + i, substr(add_chunks.bytes, i + 1, add_chunks.chunk));
	END LOOP;
END $$;

-- The procedures below write the row of an object whose body grows by size bytes, and the
-- first of these bytes. They return the body's id and the offset of the bytes, or null on
-- a conflict.

CREATE PROCEDURE {{.schema}}.create_object(
	key text, version text, size bigint, content_type text, cache_control text, data bytea, bytes bytea, chunk integer,
	INOUT body bigint, INOUT start bigint
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
	INSERT INTO {{.schema}}.objects AS o (key, version, body, size, modified, content_type, cache_control, data)
	VALUES (create_object.key, create_object.version, create_object.body, create_object.size, clock_timestamp(),
		create_object.content_type, create_object.cache_control, create_object.data)
	ON CONFLICT DO NOTHING
	RETURNING o.body, 0 INTO create_object.body, create_object.start;
	IF FOUND THEN
		CALL {{.schema}}.add_chunks(body, start, bytes, chunk);
	END IF;
END $$;

CREATE PROCEDURE {{.schema}}.append_object(
	key text, at text, version text, size bigint, content_type text, cache_control text, data bytea, bytes bytea, chunk integer,
	INOUT body bigint, INOUT start bigint
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
	UPDATE {{.schema}}.objects AS o
	SET version = append_object.version, size = o.size + append_object.size, modified = clock_timestamp(),
		content_type = append_object.content_type, cache_control = append_object.cache_control, data = append_object.data
	WHERE o.key = append_object.key AND o.version = append_object.at
	RETURNING o.body, o.size - append_object.size INTO append_object.body, append_object.start;
	IF FOUND THEN
		CALL {{.schema}}.add_chunks(body, start, bytes, chunk);
	END IF;
END $$;

CREATE PROCEDURE {{.schema}}.replace_object(
	key text, at text, version text, size bigint, content_type text, cache_control text, data bytea, bytes bytea, chunk integer,
	INOUT body bigint, INOUT start bigint
) LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
	old bigint;
BEGIN
	SELECT o.body INTO old FROM {{.schema}}.objects AS o
	WHERE o.key = replace_object.key AND o.version = replace_object.at FOR NO KEY UPDATE;
	UPDATE {{.schema}}.objects AS o
	SET version = replace_object.version, body = replace_object.body, size = replace_object.size, modified = clock_timestamp(),
		content_type = replace_object.content_type, cache_control = replace_object.cache_control, data = replace_object.data
	WHERE o.key = replace_object.key AND o.version = replace_object.at
	RETURNING o.body, 0 INTO replace_object.body, replace_object.start;
	IF FOUND THEN
		DELETE FROM {{.schema}}.chunks AS c WHERE c.body = old;
		CALL {{.schema}}.add_chunks(body, start, bytes, chunk);
	END IF;
END $$;
