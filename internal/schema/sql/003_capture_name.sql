-- The qualified and quoted name that a captured table had when it was attached, by which
-- its capture can be removed after the table has been dropped.
ALTER TABLE {{.schema}}.outbox_capture ADD COLUMN name text COLLATE "C" NOT NULL DEFAULT '';
UPDATE {{.schema}}.outbox_capture AS k SET name = quote_ident(nspname) || '.' || quote_ident(relname)
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = relnamespace WHERE c.oid = k.relation;
