-- The name of a captured table, qualified and quoted, as it was when it was attached: what
-- is left of a capture can be found by it when the table was dropped.
ALTER TABLE {{.schema}}.outbox_capture ADD COLUMN name text COLLATE "C" NOT NULL DEFAULT '';
UPDATE {{.schema}}.outbox_capture AS k SET name = quote_ident(nspname) || '.' || quote_ident(relname)
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = relnamespace WHERE c.oid = k.relation;
