package postgres

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A rowQuery selects rows to be compared: key, Content-ID, version and sum.
type rowQuery struct {
	sql     string // up to FROM TABLE
	key     string // expression for the key
	ordered bool   // the key's index is in byte order
	whole   bool   // all rows have sums, except unusual ones
	remarks []string
}

// sumOf is an SQL expression for the sum of an entity, as package digest defines it.
const sumOf = `substring(sha256(int8send(octet_length(k)) || k || int8send(octet_length(c)) || c || b) FOR 16)`

// rowQuery returns the query for a table with the given columns.
func (t *target) rowQuery(have map[string]existing) (q rowQuery) {
	quoted := pgx.Identifier{t.table.key}.Sanitize()
	q.key = quoted
	contentID, sum := "content_id", "NULL::bytea"
	switch {
	case len(t.projections) > 0:
		q.remarks = append(q.remarks, "values of the columns are not compared")
		q.remarks, contentID = t.projectedID(q.remarks)
		if !t.table.isTextKey() {
			q.key = quoted + "::text"
		}
	case have["body"].typ != "json":
		q.remarks = append(q.remarks, "column body is "+have["body"].typ+", which does not keep the text: rows are compared by their Content-ID")
	default:
		q.whole = true
		// A value that contains the escape character differs from the one that was published.
		sum = `CASE WHEN strpos(key || content_type, E'\x1a') = 0 THEN (SELECT ` + sumOf + ` FROM (SELECT
			convert_to(key, 'UTF8') AS k, convert_to(content_type, 'UTF8') AS c, coalesce(convert_to(body::text, 'UTF8'), bytes, '') AS b) AS e) END`
	}
	q.sql = fmt.Sprintf("SELECT %s, %s, xmin::text, %s FROM %s", q.key, contentID, sum, t.table.quoted(t.table.name))
	return q
}

// projectedID returns the expression for the Content-ID in a table with custom columns.
func (t *target) projectedID(remarks []string) ([]string, string) {
	for _, p := range t.projections {
		if p.field == fieldContentID {
			return remarks, "coalesce(" + pgx.Identifier{p.name}.Sanitize() + "::text, '')"
		}
	}
	return append(remarks, "no column has @content_id: only the key of each row is compared"), "''"
}

// ranged returns the query for the rows with keys in [from, to). The range has no end if to is "".
// If the key is not ordered, the query may select other rows, too.
func (q *rowQuery) ranged(from, to string) (string, []any) {
	collate := ""
	if !q.ordered {
		collate = ` COLLATE "C"`
	}
	sql, args := q.sql, []any(nil)
	add := func(condition, bound string) {
		if !q.ordered && asText(bound) != bound {
			return // escaped keys sort differently: omit the bound, which selects more rows
		}
		word := " AND "
		if len(args) == 0 {
			word = " WHERE "
		}
		args = append(args, asText(bound))
		sql += fmt.Sprintf("%s%s%s %s $%d::text", word, q.key, collate, condition, len(args))
	}
	if from != "" {
		add(">=", from)
	}
	if to != "" {
		add("<", to)
	}
	return sql + " ORDER BY " + q.key + collate, args
}

// named returns the query for the rows with the keys in its parameter.
func (q *rowQuery) named() string { return q.sql + " WHERE " + q.key + " = ANY ($1::text[])" }
