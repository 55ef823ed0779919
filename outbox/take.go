package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/feed"
)

// inline is the maximum size, in bytes, of a body that is read together with its row. Larger bodies
// are read in pieces of this size when they are published.
const inline = 1 << 20

// rows holds rows taken from the outbox, in order.
type rows struct {
	ids      []int64
	entities []*feed.Entity
	bytes    int64
	oldest   time.Time // when the first row was inserted, converted to the local clock
	bad      []badRow
	full     bool  // a limit was reached, so there may be more rows
	passed   int64 // all rows with smaller ids either have been taken, or will never appear
}

// all returns the ids of all rows, including bad rows, in order.
func (r rows) all() []int64 {
	ids := slices.Clone(r.ids)
	for _, b := range r.bad {
		ids = append(ids, b.id)
	}
	slices.Sort(ids)
	return ids
}

// A badRow is a row that cannot be published.
type badRow struct {
	id     int64
	reason string
}

// take reads the first visible rows of the feed at or above the watermark, within the limits. It
// leaves out the rows whose ids are in except, which is sorted: these were taken before and may
// still be in the table. It executes one statement, which sees one snapshot. Large bodies are read
// later.
func (c Config) take(ctx context.Context, tx pgx.Tx, large bodies, m watermark, except []int64) (rows, error) {
	beyond := int64(0)
	if len(except) > 0 {
		beyond = except[len(except)-1]
	}
	found, err := tx.Query(ctx, `
		SELECT id, key, op, CASE WHEN size <= $5 THEN body END, size, content_type, headers::text, content_id, `+waited+`
		FROM (
			SELECT *, octet_length(body) AS size,
				sum(octet_length(body)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) AS total
			FROM outbox
			WHERE feed = $1 AND id >= $2 AND (id > $6 OR id <> ALL($7))
			ORDER BY id LIMIT $3
		) AS first
		WHERE total - size < $4 ORDER BY id`, c.Feed, m.from, c.MaxRows, c.MaxBytes, inline, beyond, append([]int64{}, except...))
	if err != nil {
		return rows{}, fmt.Errorf("read outbox of feed %q: %w", c.Feed, err)
	}
	r, last, err := c.collect(ctx, found, large)
	if err != nil {
		return rows{}, err
	}
	if !r.full {
		last = m.settled
	}
	r.passed = min(m.settled, last) + 1
	return r, nil
}

// these is the SQL condition for the rows whose ids are in a sorted array. Without the range, the
// planner would choose to search the whole feed if there are many ids.
const these = `id BETWEEN ($2::bigint[])[1] AND ($2::bigint[])[cardinality($2::bigint[])] AND id = ANY($2)`

// waited is an SQL expression: the number of seconds that a row has been in the outbox.
const waited = `extract(epoch FROM clock_timestamp() - created_at)::float8`

// takeThese reads the rows with the given ids, if they still exist. MaxEntity does not apply: the
// rows were taken before, when MaxEntity may have been different.
func (c Config) takeThese(ctx context.Context, tx pgx.Tx, large bodies, ids []int64) (rows, error) {
	c.MaxEntity = 0
	found, err := tx.Query(ctx, `
		SELECT id, key, op, CASE WHEN size <= $3 THEN body END, size, content_type, headers::text, content_id, `+waited+`
		FROM (SELECT *, octet_length(body) AS size FROM outbox WHERE feed = $1 AND `+these+`) AS these
		ORDER BY id`, c.Feed, ids, inline)
	if err != nil {
		return rows{}, fmt.Errorf("read batch of feed %q: %w", c.Feed, err)
	}
	r, _, err := c.collect(ctx, found, large)
	return r, err
}

// collect returns the rows in the result of a query, and the last id among them.
func (c Config) collect(ctx context.Context, found pgx.Rows, large bodies) (r rows, last int64, err error) {
	defer found.Close()
	n, total := 0, int64(0)
	for found.Next() {
		var id int64
		var key, headers *string
		var waited float64
		e := &feed.Entity{}
		if err := found.Scan(&id, &key, &e.Operation, &e.Body, &e.Size, &e.ContentType, &headers, &e.ContentID, &waited); err != nil {
			return rows{}, 0, fmt.Errorf("read outbox of feed %q: %w", c.Feed, err)
		}
		if n == 0 {
			r.oldest = time.Now().Add(-time.Duration(max(waited, 0) * float64(time.Second)))
		}
		n, total, last = n+1, total+e.Size, id
		if key != nil {
			e.ContentLocation = feed.EncodeKey(*key)
		}
		if reason := c.check(e, headers); reason != "" {
			r.bad = append(r.bad, badRow{id, reason})
			continue
		}
		r.bytes += e.Size
		if e.Size > inline {
			e.Stream = large.open(ctx, c.Feed, id, e.Size)
		}
		r.ids, r.entities = append(r.ids, id), append(r.entities, e)
	}
	if err := found.Err(); err != nil {
		return rows{}, 0, fmt.Errorf("read outbox of feed %q: %w", c.Feed, err)
	}
	r.full = n >= c.MaxRows || total >= c.MaxBytes
	return r, last, nil
}

// check completes the entity e and returns the reason why it cannot be published, or "".
func (c Config) check(e *feed.Entity, headers *string) string {
	if headers != nil {
		var values map[string]string
		if err := json.Unmarshal([]byte(*headers), &values); err != nil {
			return fmt.Sprintf("headers are not a JSON object of strings: %v", err)
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			e.Header = append(e.Header, feed.Field{Name: name, Value: values[name]})
		}
	}
	if err := e.Check(true); err != nil {
		return err.Error()
	}
	if c.MaxEntity > 0 && e.Size > c.MaxEntity {
		return fmt.Sprintf("body has %d bytes, the limit is %d", e.Size, c.MaxEntity)
	}
	return ""
}

// remove deletes the rows with the given ids, which were published, and moves bad rows to the
// quarantine. It returns how many of all these rows existed.
func (c Config) remove(ctx context.Context, tx pgx.Tx, ids []int64, bad []badRow) (removed int64, err error) {
	if len(ids) > 0 {
		tag, err := tx.Exec(ctx, `DELETE FROM outbox WHERE feed = $1 AND `+these, c.Feed, ids)
		if err != nil {
			return 0, fmt.Errorf("delete from outbox of feed %q: %w", c.Feed, err)
		}
		removed = tag.RowsAffected()
	}
	if len(bad) == 0 {
		return removed, nil
	}
	badIDs, reasons := make([]int64, len(bad)), make([]string, len(bad))
	for n, b := range bad {
		badIDs[n], reasons[n] = b.id, b.reason
	}
	tag, err := tx.Exec(ctx, `
		WITH bad AS (DELETE FROM outbox WHERE feed = $1 AND `+these+` RETURNING *)
		INSERT INTO outbox_quarantine (feed, id, key, op, body, content_type, headers, content_id, created_at, reason)
		SELECT feed, id, key, op, body, content_type, headers, content_id, created_at, reason
		FROM bad JOIN unnest($2::bigint[], $3::text[]) AS why (id, reason) USING (id)`, c.Feed, badIDs, reasons)
	if err != nil {
		return 0, fmt.Errorf("put rows of feed %q into quarantine: %w", c.Feed, err)
	}
	return removed + tag.RowsAffected(), nil
}
