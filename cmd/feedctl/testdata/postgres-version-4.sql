CREATE SCHEMA feedctl;
CREATE PROCEDURE feedctl.add_chunks(IN body bigint, IN start bigint, IN bytes bytea, IN chunk integer)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
BEGIN
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
	FOR i IN 0 .. length(bytes) - 1 BY chunk LOOP
		INSERT INTO feedctl.chunks (body, position, bytes)
		VALUES (add_chunks.body, add_chunks.start + i, substr(add_chunks.bytes, i + 1, add_chunks.chunk));
	END LOOP;
END $$;
CREATE PROCEDURE feedctl.append_object(IN key text, IN at text, IN version text, IN size bigint, IN content_type text, IN cache_control text, IN data bytea, IN bytes bytea, IN chunk integer, INOUT body bigint, INOUT start bigint)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
BEGIN
	UPDATE feedctl.objects AS o
	SET version = append_object.version, size = o.size + append_object.size, modified = clock_timestamp(),
		content_type = append_object.content_type, cache_control = append_object.cache_control, data = append_object.data
	WHERE o.key = append_object.key AND o.version = append_object.at
	RETURNING o.body, o.size - append_object.size INTO append_object.body, append_object.start;
	IF FOUND THEN
		CALL feedctl.add_chunks(body, start, bytes, chunk);
	END IF;
END $$;
CREATE PROCEDURE feedctl.create_object(IN key text, IN version text, IN size bigint, IN content_type text, IN cache_control text, IN data bytea, IN bytes bytea, IN chunk integer, INOUT body bigint, INOUT start bigint)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
BEGIN
	INSERT INTO feedctl.objects AS o (key, version, body, size, modified, content_type, cache_control, data)
	VALUES (create_object.key, create_object.version, create_object.body, create_object.size, clock_timestamp(),
		create_object.content_type, create_object.cache_control, create_object.data)
	ON CONFLICT DO NOTHING
	RETURNING o.body, 0 INTO create_object.body, create_object.start;
	IF FOUND THEN
		CALL feedctl.add_chunks(body, start, bytes, chunk);
	END IF;
END $$;
CREATE FUNCTION feedctl.outbox_check(feed text, key text, op text, content_type text, headers jsonb, content_id text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $_$
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
END $_$;
CREATE FUNCTION feedctl.publish(feed text, key text, op text, body bytea, content_type text DEFAULT 'application/octet-stream'::text, headers jsonb DEFAULT NULL::jsonb, content_id text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql
    AS $$
BEGIN
	publish.content_id := coalesce(publish.content_id, '<' || gen_random_uuid() || '@outbox>');
	INSERT INTO feedctl.outbox (feed, key, op, body, content_type, headers, content_id)
	VALUES (publish.feed, publish.key, coalesce(upper(publish.op), 'PUT'), coalesce(publish.body, ''),
		coalesce(publish.content_type, 'application/octet-stream'), publish.headers, publish.content_id);
	RETURN publish.content_id;
END $$;
CREATE FUNCTION feedctl.publish(feed text, key text, op text, body json, content_type text DEFAULT 'application/json'::text, headers jsonb DEFAULT NULL::jsonb, content_id text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql
    AS $$
BEGIN
	RETURN feedctl.publish(publish.feed, publish.key, publish.op, publish.body::text, publish.content_type, publish.headers, publish.content_id);
END $$;
CREATE FUNCTION feedctl.publish(feed text, key text, op text, body jsonb, content_type text DEFAULT 'application/json'::text, headers jsonb DEFAULT NULL::jsonb, content_id text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql
    AS $$
BEGIN
	RETURN feedctl.publish(publish.feed, publish.key, publish.op, publish.body::text, publish.content_type, publish.headers, publish.content_id);
END $$;
CREATE FUNCTION feedctl.publish(feed text, key text, op text DEFAULT 'PUT'::text, body text DEFAULT ''::text, content_type text DEFAULT 'application/json'::text, headers jsonb DEFAULT NULL::jsonb, content_id text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql
    AS $$
BEGIN
	publish.content_id := coalesce(publish.content_id, '<' || gen_random_uuid() || '@outbox>');
	INSERT INTO feedctl.outbox (feed, key, op, body, content_type, headers, content_id)
	VALUES (publish.feed, publish.key, coalesce(upper(publish.op), 'PUT'), convert_to(coalesce(publish.body, ''), 'UTF8'),
		coalesce(publish.content_type, 'application/json'), publish.headers, publish.content_id);
	RETURN publish.content_id;
END $$;
CREATE PROCEDURE feedctl.replace_object(IN key text, IN at text, IN version text, IN size bigint, IN content_type text, IN cache_control text, IN data bytea, IN bytes bytea, IN chunk integer, INOUT body bigint, INOUT start bigint)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
	old bigint;
BEGIN
	SELECT o.body INTO old FROM feedctl.objects AS o
	WHERE o.key = replace_object.key AND o.version = replace_object.at FOR NO KEY UPDATE;
	UPDATE feedctl.objects AS o
	SET version = replace_object.version, body = replace_object.body, size = replace_object.size, modified = clock_timestamp(),
		content_type = replace_object.content_type, cache_control = replace_object.cache_control, data = replace_object.data
	WHERE o.key = replace_object.key AND o.version = replace_object.at
	RETURNING o.body, 0 INTO replace_object.body, replace_object.start;
	IF FOUND THEN
		DELETE FROM feedctl.chunks AS c WHERE c.body = old;
		CALL feedctl.add_chunks(body, start, bytes, chunk);
	END IF;
END $$;
CREATE TABLE feedctl.chunks (
    body bigint NOT NULL,
    "position" bigint NOT NULL,
    bytes bytea NOT NULL
);
ALTER TABLE ONLY feedctl.chunks ALTER COLUMN bytes SET STORAGE PLAIN;
CREATE TABLE feedctl.objects (
    key text NOT NULL COLLATE pg_catalog."C",
    version text NOT NULL,
    body bigint NOT NULL,
    size bigint NOT NULL,
    modified timestamp with time zone NOT NULL,
    content_type text NOT NULL,
    cache_control text NOT NULL,
    data bytea NOT NULL,
    CONSTRAINT objects_size_check CHECK ((size >= 0))
)
WITH (fillfactor='50');
CREATE TABLE feedctl.outbox (
    feed text NOT NULL COLLATE pg_catalog."C",
    id bigint NOT NULL,
    key text,
    op text DEFAULT 'PUT'::text NOT NULL COLLATE pg_catalog."C",
    body bytea DEFAULT '\x'::bytea NOT NULL,
    content_type text DEFAULT 'application/json'::text NOT NULL COLLATE pg_catalog."C",
    headers jsonb,
    content_id text DEFAULT (('<'::text || gen_random_uuid()) || '@outbox>'::text) NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT outbox_check CHECK (feedctl.outbox_check(feed, key, op, content_type, headers, content_id))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='20000', autovacuum_vacuum_cost_delay='0', autovacuum_vacuum_insert_threshold='-1', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='1000000');
ALTER TABLE ONLY feedctl.outbox ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE feedctl.outbox_capture (
    id integer NOT NULL,
    feed text NOT NULL COLLATE pg_catalog."C",
    relation regclass NOT NULL,
    key text[] NOT NULL,
    columns text[],
    name text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
);
ALTER TABLE feedctl.outbox_capture ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME feedctl.outbox_capture_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE feedctl.outbox_feed (
    feed text NOT NULL COLLATE pg_catalog."C",
    destination text NOT NULL,
    epoch text NOT NULL,
    batch bigint DEFAULT 0 NOT NULL,
    checkpoint text DEFAULT ''::text NOT NULL,
    pending text,
    ids bigint[],
    page bigint DEFAULT 0 NOT NULL,
    CONSTRAINT outbox_feed_check CHECK (((pending IS NULL) = (ids IS NULL))),
    CONSTRAINT outbox_feed_destination_check CHECK ((destination = ANY (ARRAY['database'::text, 'store'::text])))
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');
ALTER TABLE feedctl.outbox ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME feedctl.outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE feedctl.outbox_lease (
    feed text NOT NULL COLLATE pg_catalog."C",
    runner text NOT NULL,
    until timestamp with time zone NOT NULL
)
WITH (fillfactor='20', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');
CREATE TABLE feedctl.outbox_quarantine (
    feed text NOT NULL COLLATE pg_catalog."C",
    id bigint NOT NULL,
    key text,
    op text,
    body bytea,
    content_type text,
    headers jsonb,
    content_id text,
    created_at timestamp with time zone,
    reason text NOT NULL,
    quarantined_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);
CREATE TABLE feedctl.schema_version (
    version integer NOT NULL
);
INSERT INTO feedctl.chunks VALUES (4861762400464472317, 0, '\x2d2d56464a4f5734564e584a454458504f323633374e50585a4157370d0a4c6173742d4d6f6469666965643a2053756e2c203232204e6f7620323032362032333a34303a323920474d540d0a436f6e74656e742d547970653a206170706c69636174696f6e2f6a736f6e0d0a436f6e74656e742d49443a203c544f35534833495050353434454b56473733544f5454495441452d31407a6f6e65733e0d0a4f7065726174696f6e2d547970653a20687474702d65717569763d5055540d0a436f6e74656e742d4c6f636174696f6e3a205554430d0a436f6e74656e742d4c656e6774683a2032350d0a0d0a7b226e616d65223a22555443222c226f6666736574223a307d0d0a');
INSERT INTO feedctl.chunks VALUES (4861762400464472317, 262, '\x2d2d56464a4f5734564e584a454458504f323633374e50585a4157370d0a4c6173742d4d6f6469666965643a2053756e2c203232204e6f7620323032362032333a34303a333020474d540d0a436f6e74656e742d547970653a206170706c69636174696f6e2f6a736f6e0d0a436f6e74656e742d49443a203c574957353441564d454a555441465259334f463356564e5055582d31407a6f6e65733e0d0a4f7065726174696f6e2d547970653a20687474702d65717569763d5055540d0a436f6e74656e742d4c6f636174696f6e3a20417369612532464b6f6c6b6174610d0a436f6e74656e742d4c656e6774683a2033360d0a0d0a7b226e616d65223a22417369612f4b6f6c6b617461222c226f6666736574223a352e357d0d0a2d2d56464a4f5734564e584a454458504f323633374e50585a4157372d2d0d0a');
INSERT INTO feedctl.chunks VALUES (2714663347536056691, 0, '\x2d2d464a49435a5a57585637435a554b48564b4e4f4632504f5553360d0a4c6173742d4d6f6469666965643a2053756e2c203232204e6f7620323032362032333a34303a333020474d540d0a436f6e74656e742d547970653a206170706c69636174696f6e2f6a736f6e0d0a436f6e74656e742d49443a203c33325a5358464755424e3258363254505a3647344933335143352d31407a6f6e65733e0d0a4f7065726174696f6e2d547970653a20687474702d65717569763d5055540d0a436f6e74656e742d4c6f636174696f6e3a204575726f70652532464265726c696e0d0a436f6e74656e742d4c656e6774683a2033350d0a0d0a7b226e616d65223a224575726f70652f4265726c696e222c226f6666736574223a317d0d0a');
INSERT INTO feedctl.chunks VALUES (3511799546752059812, 0, '\x2d2d5856434e374142364b5141344646495657554a4954494c5448440d0a4c6173742d4d6f6469666965643a2053756e2c203232204e6f7620323032362032333a34303a333020474d540d0a436f6e74656e742d547970653a206170706c69636174696f6e2f6a736f6e0d0a436f6e74656e742d49443a203c574957353441564d454a555441465259334f463356564e5055582d31407a6f6e65733e0d0a436f6e74656e742d4c6f636174696f6e3a20417369612532464b6f6c6b6174610d0a436f6e74656e742d4c656e6774683a2033360d0a0d0a7b226e616d65223a22417369612f4b6f6c6b617461222c226f6666736574223a352e357d0d0a2d2d5856434e374142364b5141344646495657554a4954494c5448440d0a4c6173742d4d6f6469666965643a2053756e2c203232204e6f7620323032362032333a34303a333020474d540d0a436f6e74656e742d547970653a206170706c69636174696f6e2f6a736f6e0d0a436f6e74656e742d49443a203c33325a5358464755424e3258363254505a3647344933335143352d31407a6f6e65733e0d0a436f6e74656e742d4c6f636174696f6e3a204575726f70652532464265726c696e0d0a436f6e74656e742d4c656e6774683a2033350d0a0d0a7b226e616d65223a224575726f70652f4265726c696e222c226f6666736574223a317d0d0a2d2d5856434e374142364b5141344646495657554a4954494c5448440d0a4c6173742d4d6f6469666965643a2053756e2c203232204e6f7620323032362032333a34303a323920474d540d0a436f6e74656e742d547970653a206170706c69636174696f6e2f6a736f6e0d0a436f6e74656e742d49443a203c544f35534833495050353434454b56473733544f5454495441452d31407a6f6e65733e0d0a436f6e74656e742d4c6f636174696f6e3a205554430d0a436f6e74656e742d4c656e6774683a2032350d0a0d0a7b226e616d65223a22555443222c226f6666736574223a307d0d0a2d2d5856434e374142364b5141344646495657554a4954494c5448442d2d0d0a');
INSERT INTO feedctl.chunks VALUES (5934786237640461909, 0, '\x7b226964223a223230323631313232543233343033302e3331315a2d6c7a67786134676c222c22637265617465644174223a22323032362d31312d32325432333a34303a33302e3030305a222c227061676573223a5b222f736e617073686f74732f7a6f6e65732f3230323631313232543233343033302e3331315a2d6c7a67786134676c2f70616765732f30225d2c2266656564223a7b2275726c223a222f66656564732f7a6f6e6573222c2270616765223a222f66656564732f7a6f6e65732f70616765732f32222c226c6173744d6f646966696564223a22323032362d31312d32325432333a34303a33305a222c22636f6e74656e744964223a225c753030336333325a5358464755424e3258363254505a3647344933335143352d31407a6f6e65735c7530303365227d2c22656e746974696573223a337d');
INSERT INTO feedctl.objects VALUES ('feeds/zones/pages/000000000001', 'MRWQT3BDNWYOLGMYP5GU5GH7KE', 4861762400464472317, 578, '2026-11-22 23:40:30.031894+00', 'multipart/mixed; boundary="VFJOW4VNXJEDXPO2637NPXZAW7"', '', '\x7b22666f726d6174223a312c2266656564223a227a6f6e6573222c2270616765223a312c22626f756e64617279223a2256464a4f5734564e584a454458504f323633374e50585a415737222c22656e746974696573223a322c2266697273744d73223a313739353339303832393934352c226c6173744d73223a313739353339303833303033302c226c617374436f6e74656e744964223a225c7530303363574957353441564d454a555441465259334f463356564e5055582d31407a6f6e65735c7530303365222c22736861323536223a2261323263353137623537383636616530393139663964383465643935323139613363613966316131633437363136653665336237393037613038363739343038222c22636c6f736564223a747275657d');
INSERT INTO feedctl.objects VALUES ('feeds/zones/pages/000000000002', '2BH4W63QCSAO6OCYHOLTZOJ7W6', 2714663347536056691, 284, '2026-11-22 23:40:30.105546+00', 'multipart/mixed; boundary="FJICZZWXV7CZUKHVKNOF2POUS6"', '', '\x7b22666f726d6174223a312c2266656564223a227a6f6e6573222c2270616765223a322c22626f756e64617279223a22464a49435a5a57585637435a554b48564b4e4f4632504f555336222c22656e746974696573223a312c2266697273744d73223a313739353339303833303130332c226c6173744d73223a313739353339303833303130332c226c617374436f6e74656e744964223a225c753030336333325a5358464755424e3258363254505a3647344933335143352d31407a6f6e65735c7530303365222c22736861323536223a2233633662356236346333366438643131633838633632653363636631323030636631626531313662376164346538633763333861626133626562663230313530222c2270726576223a2234313561373536343335386431316539643032343035386536323065666264313164656464333839306465643231363266636432363861626338646533393564227d');
INSERT INTO feedctl.objects VALUES ('snapshots/zones/pages/20261122T234030.311Z-lzgxa4gl/000000', 'ISNPOENWYDHDT7IIL3AEB2FDDP', 3511799546752059812, 766, '2026-11-22 23:40:30.313347+00', 'multipart/mixed; boundary="XVCN7AB6KQA4FFIVWUJITILTHD"', 'public, max-age=31536000, immutable', '\x7b22656e746974696573223a332c22736861323536223a2231653566653064333363363562663236356634373265653066616663363431643438383863656631333439383031343735623937366163383530613437643963227d');
INSERT INTO feedctl.objects VALUES ('snapshots/zones/index/20261122T234030.311Z-lzgxa4gl', 'EDUPLU3RVBF3UUJUSNVRTOWWRN', 5934786237640461909, 316, '2026-11-22 23:40:30.316114+00', 'application/json', 'public, max-age=31536000, immutable', '\x');
INSERT INTO feedctl.schema_version VALUES (4);
SELECT pg_catalog.setval('feedctl.outbox_capture_id_seq', 1, false);
SELECT pg_catalog.setval('feedctl.outbox_id_seq', 1, false);
ALTER TABLE ONLY feedctl.chunks
    ADD CONSTRAINT chunks_pkey PRIMARY KEY (body, "position");
ALTER TABLE ONLY feedctl.objects
    ADD CONSTRAINT objects_pkey PRIMARY KEY (key);
ALTER TABLE ONLY feedctl.outbox_capture
    ADD CONSTRAINT outbox_capture_feed_key UNIQUE (feed);
ALTER TABLE ONLY feedctl.outbox_capture
    ADD CONSTRAINT outbox_capture_pkey PRIMARY KEY (id);
ALTER TABLE ONLY feedctl.outbox_capture
    ADD CONSTRAINT outbox_capture_relation_key UNIQUE (relation);
ALTER TABLE ONLY feedctl.outbox_feed
    ADD CONSTRAINT outbox_feed_pkey PRIMARY KEY (feed);
ALTER TABLE ONLY feedctl.outbox_lease
    ADD CONSTRAINT outbox_lease_pkey PRIMARY KEY (feed);
ALTER TABLE ONLY feedctl.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (feed, id);
ALTER TABLE ONLY feedctl.outbox_quarantine
    ADD CONSTRAINT outbox_quarantine_pkey PRIMARY KEY (feed, id);
