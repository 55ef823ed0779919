package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/sink"
)

const (
	keyColumn       = "key"
	quarantineTable = "feedctl_quarantine"
)

// Values of a projection's field that stand for properties of the entity.
const (
	fieldKey          = "@key"
	fieldContentID    = "@content_id"
	fieldLastModified = "@last_modified"
)

type column struct {
	name   string
	define string // its type and constraints, for CREATE TABLE
	value  string // expression for its value, over the staging table s
}

// staged lists the first columns of the staging table; the contents follow.
var staged = []string{
	`n integer`,   // in the order of the feed
	`op "char"`,   // P, D, or C for the result of a PATCH
	`reason text`, // why the row goes into quarantine; NULL if not rejected
	`key text`,
	`content_id text`,
	`last_modified timestamptz`,
}

// The first columns of staged are not in the table. In a row that is not rejected, these columns
// and the number of fields take onlyStagedSize bytes of COPY's binary format.
const (
	onlyStaged     = 3
	onlyStagedSize = 2 + (4 + 4) + (4 + 1) + 4
)

// A table describes the table to which the sink writes, and its staging table.
type table struct {
	schema, name string
	columns      []column
	key          string   // the column with the key
	contents     []string // columns of the staging table after staged
}

// generic sets the columns to those of a table with whole entities.
func (t *table) generic() {
	t.key = keyColumn
	t.columns = []column{
		{keyColumn, `text COLLATE "C" NOT NULL PRIMARY KEY`, "s.key"},
		{"content_type", "text NOT NULL", "s.content_type"},
		{"last_modified", "timestamptz NOT NULL", "s.last_modified"},
		{"content_id", "text NOT NULL", "s.content_id"},
		{"headers", "json NOT NULL", "s.headers"},
		{"body", "json", "s.body"},
		{"bytes", "bytea", "s.bytes"},
	}
	t.contents = []string{"content_type text", "headers json", "body json", "bytes bytea"}
}

// projected sets the columns to custom ones.
func (t *table) projected(projections []projection) {
	t.columns, t.contents = nil, nil
	for _, p := range projections {
		c := column{name: p.name, define: p.declared}
		if p.field == fieldKey && p.typ == "text" {
			c.define += ` COLLATE "C"` // so that its index is in byte order
		}
		if p.notNull {
			c.define += " NOT NULL"
		}
		switch p.field {
		case fieldKey:
			t.key = p.name
			c.define += " PRIMARY KEY"
			c.value = "s.key::" + p.typ
		case fieldContentID:
			c.value = "s.content_id::" + p.typ
		case fieldLastModified:
			c.value = "s.last_modified::" + p.typ
		default:
			staged := fmt.Sprintf("c%d", len(t.contents))
			t.contents = append(t.contents, staged+" text")
			c.value = p.value("s." + staged)
		}
		t.columns = append(t.columns, c)
	}
}

// value returns an expression that converts text to a value of the column. The type of the cast has
// no length or precision: with them, the cast would silently truncate values that an assignment
// rejects.
func (p *projection) value(text string) string {
	if p.kind == record {
		return fmt.Sprintf("(SELECT x FROM json_to_record(json_build_object('x', %s::json)) AS r(x %s))", text, p.typ)
	}
	return text + "::" + p.typ
}

// tableName matches the name of a table or a schema: a letter, and up to 62 letters,
// digits and underscores.
var tableName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,62}$`)

// parseTable parses TABLE or SCHEMA.TABLE, without case folding.
func parseTable(text string) (t table, err error) {
	t.name = text
	if schema, name, ok := strings.Cut(text, "."); ok {
		t.schema, t.name = schema, name
	}
	lower := strings.ToLower(t.name)
	if !tableName.MatchString(t.name) || strings.HasPrefix(lower, "pg_") || strings.HasPrefix(lower, "feedctl_") ||
		t.schema != "" && !tableName.MatchString(t.schema) || t.schema == "" && strings.Contains(text, ".") {
		return t, fmt.Errorf("%w: table %q: want TABLE or SCHEMA.TABLE, each a letter, then up to 62 letters, digits and underscores, and not pg_ or feedctl_ at the start of the table", sink.ErrSpec, text)
	}
	return t, nil
}

func (t *table) String() string { return strings.TrimPrefix(t.schema+"."+t.name, ".") }

// quoted returns the quoted name of a table in the same schema.
func (t *table) quoted(name string) string {
	return pgx.Identifier{t.schema, name}.Sanitize()
}

func (t *table) create() string {
	var columns []string
	for _, c := range t.columns {
		columns = append(columns, pgx.Identifier{c.name}.Sanitize()+" "+c.define)
	}
	return "CREATE TABLE " + t.quoted(t.name) + " (" + strings.Join(columns, ", ") + ")"
}

// stage returns the statement that creates a staging table for the session if it does not exist.
// Its name depends on its columns, because sessions of a pooler are shared.
func (t *table) stage(name, constraint, onCommit string) string {
	columns := append(append([]string{}, staged...), t.contents...)
	if constraint != "" {
		columns = append(columns, constraint)
	}
	return "CREATE TEMPORARY TABLE IF NOT EXISTS " + pgx.Identifier{name}.Sanitize() + " (" + strings.Join(columns, ", ") + ") ON COMMIT " + onCommit
}

func (t *table) copy(stage string) string {
	return "COPY pg_temp." + pgx.Identifier{stage}.Sanitize() + " FROM STDIN (FORMAT binary)"
}

// copyNew returns the statement that copies rows into a table with whole entities. The rows are
// those of the staging table, without the columns that the table does not have.
func (t *table) copyNew() string {
	var names []string
	for _, column := range slices.Concat(staged[onlyStaged:], t.contents) {
		name, _, _ := strings.Cut(column, " ")
		names = append(names, name)
	}
	return "COPY " + t.quoted(t.name) + " (" + strings.Join(names, ", ") + ") FROM STDIN (FORMAT binary)"
}

// keyValue returns the expression for the key of a staged row s.
func (t *table) keyValue() string {
	for _, c := range t.columns {
		if c.name == t.key {
			return c.value
		}
	}
	return ""
}

// isTextKey reports whether different keys in the feed are different in the column.
func (t *table) isTextKey() bool {
	key := t.keyValue()
	return key == "s.key" || key == "s.key::text"
}

// sameKeys returns the query that checks whether different keys of staged rows are equal as values
// of the column.
func (t *table) sameKeys(stage string) string {
	return fmt.Sprintf("SELECT EXISTS (SELECT FROM pg_temp.%s AS s GROUP BY %s HAVING min(s.key) <> max(s.key))",
		pgx.Identifier{stage}.Sanitize(), t.keyValue())
}

// notRemoved returns a condition for staged changes: no later row deletes an equal key. Only keys
// that are not text can be equal with different spellings.
func (t *table) notRemoved(stage string) string {
	if t.isTextKey() {
		return ""
	}
	key := t.keyValue()
	removed := fmt.Sprintf("(SELECT s.n, %s AS key FROM pg_temp.%s AS s WHERE s.op = 'D' AND s.reason IS NULL) AS d", key, pgx.Identifier{stage}.Sanitize())
	// The first condition is a hash lookup in any plan.
	return fmt.Sprintf("AND (%[1]s NOT IN (SELECT d.key FROM %[2]s) OR s.n > (SELECT max(d.n) FROM %[2]s WHERE d.key = %[1]s)) ", key, removed)
}

func (t *table) remove(stage string) string {
	return fmt.Sprintf("DELETE FROM %s AS t USING pg_temp.%s AS s WHERE s.op = 'D' AND s.reason IS NULL AND t.%s = %s",
		t.quoted(t.name), pgx.Identifier{stage}.Sanitize(), pgx.Identifier{t.key}.Sanitize(), t.keyValue())
}

// upsert returns the statement that inserts or replaces the rows of staged changes, one for each
// key. If removals is set, deletions are staged, too.
func (t *table) upsert(stage string, removals bool) string {
	names, values := t.lists()
	unless := ""
	if removals {
		unless = t.notRemoved(stage)
	}
	return fmt.Sprintf("INSERT INTO %s AS t (%s) SELECT %s FROM pg_temp.%s AS s WHERE s.op <> 'D' AND s.reason IS NULL %s%s",
		t.quoted(t.name), strings.Join(names, ", "), strings.Join(values, ", "), pgx.Identifier{stage}.Sanitize(), unless, t.onConflict())
}

// lists returns the names of the columns and the expressions for their values.
func (t *table) lists() (names, values []string) {
	for _, c := range t.columns {
		names = append(names, pgx.Identifier{c.name}.Sanitize())
		values = append(values, c.value)
	}
	return names, values
}

func (t *table) onConflict() string {
	var set []string
	for _, c := range t.columns {
		if c.name != t.key {
			name := pgx.Identifier{c.name}.Sanitize()
			set = append(set, name+" = excluded."+name)
		}
	}
	conflict := "ON CONFLICT (" + pgx.Identifier{t.key}.Sanitize() + ") DO "
	if len(set) == 0 {
		return conflict + "NOTHING"
	}
	return conflict + "UPDATE SET " + strings.Join(set, ", ")
}

// mergeInOrder returns the statement that merges the staged rows numbered in [from, to), in the
// order of the feed, as many at a time as possible, and sets the reason of those that the table
// rejects. The last of several rows for one key counts, but all must have the right types. If
// strict is set, the first rejected row is an error.
func (t *table) mergeInOrder(stage string, from, to int, strict bool) string {
	names, values := t.lists()
	typed := make([]string, len(names))
	for i := range names {
		typed[i] = values[i] + " AS " + names[i]
	}
	refuse := "UPDATE pg_temp.%[2]s SET reason = why WHERE n = low; low := low + 1;"
	if strict {
		refuse = `SELECT format('entity "%%s" with key "%%s": %%s', content_id, key, why) INTO why FROM pg_temp.%[2]s WHERE n = low;
				RAISE EXCEPTION USING ERRCODE = code, MESSAGE = why;`
	}
	return fmt.Sprintf(`DO $feedctl$
#variable_conflict use_column
DECLARE
	low integer := %[8]d;
	many integer := %[1]d - low;
	why text; detail text; code text;
BEGIN
	WHILE low < %[1]d LOOP
		BEGIN
			WITH typed AS MATERIALIZED (
				SELECT s.n AS "feedctl n", s.op AS "feedctl op", %[3]s
				FROM pg_temp.%[2]s AS s WHERE s.n >= low AND s.n < least(low + many, %[1]d) AND s.reason IS NULL
			), newest AS (
				SELECT DISTINCT ON (%[4]s) * FROM typed ORDER BY %[4]s, "feedctl n" DESC
			), gone AS (
				DELETE FROM %[5]s AS t USING newest WHERE newest."feedctl op" = 'D' AND t.%[4]s = newest.%[4]s
			)
			INSERT INTO %[5]s AS t (%[6]s) SELECT %[6]s FROM newest WHERE "feedctl op" <> 'D' ORDER BY "feedctl n" %[7]s;
			low := low + many; many := least(2 * many, %[1]d);
		EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded OR raise_exception THEN
			IF many > 1 THEN
				many := greatest(1, many / 8);
			ELSE
				GET STACKED DIAGNOSTICS why = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, code = RETURNED_SQLSTATE;
				why := why || coalesce(': ' || nullif(detail, ''), '');
				`+refuse+`
			END IF;
		END;
	END LOOP;
END $feedctl$`,
		to, pgx.Identifier{stage}.Sanitize(), strings.Join(typed, ", "), pgx.Identifier{t.key}.Sanitize(), t.quoted(t.name),
		strings.Join(names, ", "), t.onConflict(), from)
}

func (t *table) quarantine(stage string) string {
	return fmt.Sprintf(`INSERT INTO %s (table_name, name, content_id, key, operation, last_modified, reason)
		SELECT $1, $2, s.content_id, s.key, CASE s.op WHEN 'D' THEN 'DELETE' WHEN 'C' THEN 'PATCH' ELSE 'PUT' END, s.last_modified, s.reason
		FROM pg_temp.%s AS s WHERE s.reason IS NOT NULL ORDER BY s.n`, t.quoted(quarantineTable), pgx.Identifier{stage}.Sanitize())
}

func (t *table) createQuarantine() string {
	return "CREATE TABLE " + t.quoted(quarantineTable) + ` (
		id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		table_name    text NOT NULL,
		name          text NOT NULL,
		content_id    text NOT NULL,
		key           text NOT NULL,
		operation     text NOT NULL,
		last_modified timestamptz NOT NULL,
		reason        text NOT NULL,
		quarantined   timestamptz NOT NULL DEFAULT now())`
}
