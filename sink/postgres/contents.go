package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/position"
)

// Contents holds the rows of a table and the position of its consumer at one moment, in one read
// transaction. It must be closed.
type Contents struct {
	conn  *pgx.Conn
	name  string // for errors
	about sink.About
	rows  rowQuery
	at    feed.Position
}

// OpenContents opens the table that s names for reading. A consumer that has the table open is not
// delayed. While the contents are open, the server does not remove old versions of rows.
func OpenContents(ctx context.Context, s sink.Spec) (_ *Contents, err error) {
	url, o, err := parseSpec(s)
	if err != nil {
		return nil, err
	}
	config, err := parseConfig(url)
	if err != nil {
		return nil, err
	}
	if o.Table == "" {
		return nil, errNoTable
	}
	t := &target{document: -1}
	if t.table, err = parseTable(o.Table); err != nil {
		return nil, err
	}
	if t.projections, err = parseColumns(o.Columns); err != nil {
		return nil, err
	}
	c := &Contents{name: sink.Redact(s.String())}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("read sink %s: %w", c.name, err), c.Close())
		}
	}()
	if c.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	b.Queue(position.PostgresKeepAlive)
	b.Queue(position.PostgresUndisturbed)
	if err := c.conn.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	if err := c.prepare(ctx, t); err != nil {
		return nil, err
	}
	return c, c.readPosition(ctx, &t.table, o.Name)
}

func (c *Contents) prepare(ctx context.Context, t *target) error {
	if t.table.schema == "" {
		if err := c.conn.QueryRow(ctx, "SELECT coalesce(current_schema(), '')").Scan(&t.table.schema); err != nil {
			return err
		}
	}
	if err := t.resolve(ctx, c.conn); err != nil {
		return err
	}
	have, err := t.existingColumns(ctx, c.conn)
	if err != nil {
		return err
	}
	c.rows = t.rowQuery(have)
	if c.about.Ordered, err = c.ordersBytes(ctx, &t.table); err != nil {
		return err
	}
	c.rows.ordered = c.about.Ordered
	c.about.Whole = c.rows.whole
	c.about.Remarks = c.rows.remarks
	return nil
}

// ordersBytes reports whether the column of the key, and therefore its index, is sorted in byte
// order.
func (c *Contents) ordersBytes(ctx context.Context, t *table) (ordered bool, err error) {
	// Version 14 has no datlocprovider.
	err = c.conn.QueryRow(ctx, `
		SELECT CASE WHEN l.collname <> 'default' THEN l.collname IN ('C', 'POSIX', 'ucs_basic')
			ELSE coalesce(to_jsonb(d) ->> 'datlocprovider', 'c') = 'c' AND d.datcollate IN ('C', 'POSIX') END
		FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_collation AS l ON l.oid = a.attcollation
		CROSS JOIN pg_catalog.pg_database AS d
		WHERE a.attrelid = $1::text::regclass AND a.attname = $2 AND d.datname = current_database()`,
		t.quoted(t.name), t.key).Scan(&ordered)
	if errors.Is(err, pgx.ErrNoRows) { // not a column of type text
		return false, nil
	}
	if err == nil && ordered { // escaped keys are out of order
		key := pgx.Identifier{t.key}.Sanitize()
		err = c.conn.QueryRow(ctx, fmt.Sprintf(`SELECT NOT EXISTS (SELECT FROM %s WHERE strpos(%s, E'\x1a') > 0)`, t.quoted(t.name), key)).Scan(&ordered)
	}
	return ordered, err
}

func (c *Contents) readPosition(ctx context.Context, t *table, name string) error {
	var at *string
	var consumers int
	err := c.conn.QueryRow(ctx, fmt.Sprintf("SELECT min(position) FILTER (WHERE name = $2), count(*) FROM %s WHERE table_name = $1",
		t.quoted(position.Table)), t.name, name).Scan(&at, &consumers)
	switch {
	case err != nil:
		return err
	case at == nil:
		return fmt.Errorf("no consumer with the name %q has a position for this table", name)
	}
	c.about.Shared = consumers > 1
	return json.Unmarshal([]byte(*at), &c.at)
}

// Position returns the position of the consumer.
func (c *Contents) Position() feed.Position { return c.at }

// About describes the rows.
func (c *Contents) About() sink.About { return c.about }

// Close ends the transaction.
func (c *Contents) Close() error {
	if c.conn == nil {
		return nil
	}
	conn := c.conn
	c.conn = nil
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return conn.Close(ctx)
}

// Rows yields the rows with keys in [from, to), in the byte order of the keys. The range has no end
// if to is "". Unless About says that the rows are Ordered, they may be in any order and include
// rows with other keys. The rows must be read to the end before Rows is called again.
func (c *Contents) Rows(ctx context.Context, from, to string) iter.Seq2[sink.Row, error] {
	return func(yield func(sink.Row, error) bool) {
		query, args := c.rows.ranged(from, to)
		rows, err := c.conn.Query(ctx, query, args...)
		if err == nil {
			err = eachRow(rows, func(row sink.Row) bool { return yield(row, nil) })
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(sink.Row{}, fmt.Errorf("read sink %s: %w", c.name, err))
		}
	}
}

// errStop ends a query when the caller needs no more rows.
var errStop = errors.New("stop")

// eachRow calls use with each row of a rowQuery, until use returns false.
func eachRow(rows pgx.Rows, use func(sink.Row) bool) error {
	var row sink.Row
	var sum []byte
	_, err := pgx.ForEachRow(rows, []any{&row.Key, &row.ContentID, &row.Version, &sum}, func() error {
		row.Key, row.ContentID, row.Sum = fromText(row.Key), fromText(row.ContentID), digest.Sum{}
		copy(row.Sum[:], sum)
		if !use(row) {
			return errStop
		}
		return nil
	})
	return err
}

// fromText reverses asText.
func fromText(s string) string {
	if strings.IndexByte(s, escape) < 0 {
		return s
	}
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, string(rune(escape)))
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n, err := strconv.ParseUint(after[:min(2, len(after))], 16, 8)
		if err != nil { // not written by asText
			b.WriteByte(escape)
			s = after
			continue
		}
		b.WriteByte(byte(n))
		s = after[2:]
	}
}
