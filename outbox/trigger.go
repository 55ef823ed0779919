package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// rendering holds settings for converting values to text, so that the result does not depend on the
// session.
var rendering = []struct{ name, value string }{
	{"search_path", "pg_catalog, pg_temp"}, // so that names are qualified, for example those of type regclass
	{"timezone", "'UTC'"}, {"datestyle", "'ISO, YMD'"}, {"intervalstyle", "'iso_8601'"},
	{"extra_float_digits", "1"}, {"bytea_output", "'hex'"}, {"lc_monetary", "'C'"},
}

// The names of the triggers sort before those of others: triggers fire in the order of their names,
// and a trigger that changes the row again must not fire before these.
const (
	rowTrigger      = `"000_feedctl"`
	truncateTrigger = `"000_feedctl_truncate"`
)

// key returns an SQL expression for the key of a row.
func (r relation) key(row string) string {
	if len(r.Key) == 1 {
		return r.columns(row) + "::text"
	}
	return "json_build_array(" + r.columns(row) + ")::text"
}

// columns returns the key columns of a row, separated by commas.
func (r relation) columns(row string) string {
	columns := make([]string, len(r.Key))
	for n, c := range r.Key {
		columns[n] = row + "." + pgx.Identifier{c}.Sanitize()
	}
	return strings.Join(columns, ", ")
}

// body returns an SQL expression for the JSON of a row.
func (r relation) body(row string) string {
	if len(r.Columns) == 0 {
		return "row_to_json(" + row + ".*)::text"
	}
	columns := make([]string, len(r.Columns))
	for n, c := range r.Columns {
		name := pgx.Identifier{c}.Sanitize()
		columns[n] = row + "." + name + " AS " + name
	}
	return "(SELECT row_to_json(chosen.*) FROM (SELECT " + strings.Join(columns, ", ") + ") AS chosen)::text"
}

// install creates the functions and the triggers. The functions run with the privileges of their
// owner, who must own the table, so writers need no privileges on the outbox.
func (d *DB) install(ctx context.Context, tx pgx.Tx, r relation) error {
	outbox, feed, function := d.outbox(), literal(r.Feed), d.capture(r.id)
	changed := `
DECLARE
	was text;
	body text;
BEGIN
	IF TG_OP = 'DELETE' THEN
		INSERT INTO ` + outbox + ` (feed, key, op) VALUES (` + feed + `, ` + r.key("OLD") + `, 'DELETE');
		RETURN NULL;
	END IF;
	IF num_nulls(` + r.columns("NEW") + `) > 0 THEN
		RAISE not_null_violation USING MESSAGE = 'the key of a row that is captured is NULL: attach the table again with another key';
	END IF;
	body := ` + r.body("NEW") + `;
	IF TG_OP = 'UPDATE' THEN
		was := ` + r.key("OLD") + `;
		IF was <> ` + r.key("NEW") + ` COLLATE "C" THEN
			INSERT INTO ` + outbox + ` (feed, key, op) VALUES (` + feed + `, was, 'DELETE');
		ELSIF body = ` + r.body("OLD") + ` COLLATE "C" THEN
			RETURN NULL;
		END IF;
	END IF;
	INSERT INTO ` + outbox + ` (feed, key, op, body) VALUES (` + feed + `, ` + r.key("NEW") + `, 'PUT', convert_to(body, 'UTF8'));
	RETURN NULL;
END`
	// The truncate trigger of a partitioned table also covers partitions that have no trigger of
	// their own. A former partition has lost the trigger for rows.
	remove := `INSERT INTO ` + outbox + ` (feed, key, op) SELECT ` + feed + `, ` + r.key("r") + `, 'DELETE' FROM `
	truncated := `
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE EXCEPTION 'TRUNCATE of a table that is captured needs the isolation level READ COMMITTED'
			USING HINT = 'Its rows become DELETE events, and an older snapshot may not show all of them. DELETE works at any level.';
	END IF;
	IF row_security_active(TG_RELID) THEN
		RAISE EXCEPTION 'TRUNCATE of a table that is captured needs to see all of its rows'
			USING HINT = 'Row security is forced on the table and hides rows from the user who attached it. DELETE works.';
	END IF;
	IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = TG_RELID AND tgfoid = ` + literal(function) + `::regproc) THEN
		EXECUTE ` + literal(remove) + ` || TG_RELID::regclass::text || ' AS r WHERE tableoid = $1 OR tableoid NOT IN (SELECT tgrelid FROM pg_trigger WHERE tgfoid = $2)'
			USING TG_RELID, ` + literal(function+"_truncate") + `::regproc;
	END IF;
	RETURN NULL;
END`
	// None of these statements takes a lock that blocks readers, as DROP TRIGGER would.
	statements := append(r.define(function, changed), r.define(function+"_truncate", truncated)...)
	statements = append(statements,
		"CREATE OR REPLACE TRIGGER "+rowTrigger+" AFTER INSERT OR UPDATE OR DELETE ON "+r.name+" FOR EACH ROW EXECUTE FUNCTION "+function+"()",
		"ALTER TABLE "+r.name+" ENABLE ALWAYS TRIGGER "+rowTrigger)
	for _, table := range r.holders() {
		statements = append(statements,
			"CREATE OR REPLACE TRIGGER "+truncateTrigger+" BEFORE TRUNCATE ON "+table+" FOR EACH STATEMENT EXECUTE FUNCTION "+function+"_truncate()",
			"ALTER TABLE "+table+" ENABLE ALWAYS TRIGGER "+truncateTrigger)
	}
	if err := run(ctx, tx, statements); err != nil {
		return err
	}
	return d.tryInsert(ctx, tx, r)
}

// tryInsert returns an error if events cannot be inserted, which would make writes to the
// table fail.
func (d *DB) tryInsert(ctx context.Context, tx pgx.Tx, r relation) error {
	step, err := tx.Begin(ctx) // a savepoint
	if err != nil {
		return err
	}
	_, err = step.Exec(ctx, "SET LOCAL row_security = on; INSERT INTO outbox (feed, key, op, body) VALUES ("+literal(r.Feed)+", 'key', 'PUT', '')")
	return errors.Join(err, step.Rollback(ctx))
}

// capture returns the name of the function for the row trigger of a capture. The name of the
// function for the truncate trigger has the suffix "_truncate".
func (d *DB) capture(id any) string { return d.schema + ".capture_" + fmt.Sprint(id) }

// define returns the statements that create a trigger function that only its owner may use.
func (r relation) define(function, body string) []string {
	var set strings.Builder
	for _, s := range rendering {
		fmt.Fprintf(&set, " SET %s = %s", s.name, s.value)
	}
	return []string{
		"CREATE OR REPLACE FUNCTION " + function + "() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER" +
			" SET row_security = on" + set.String() + " AS " + literal(body),
		"REVOKE ALL ON FUNCTION " + function + "() FROM PUBLIC",
	}
}

// literal quotes a string for SQL. It relies on standard_conforming_strings, which the transactions
// of a DB set.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// holders returns the tables that hold rows and, if the table is partitioned, the partitioned table
// itself.
func (r relation) holders() []string {
	if r.partitioned {
		return append([]string{r.name}, r.leaves...)
	}
	return []string{r.name}
}

func run(ctx context.Context, tx pgx.Tx, statements []string) error {
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}
