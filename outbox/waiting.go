package outbox

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Waiting returns the feeds that have rows in the outbox, with the greatest id of each. It executes
// one read-only statement outside transactions, whose cost does not depend on the number of rows or
// the number of feeds without rows. If row security hides rows, there is an error.
func (d *DB) Waiting(ctx context.Context) (map[string]int64, error) {
	// Each feed is found with one index search.
	rows, err := d.pool.Query(ctx, strings.ReplaceAll(`
		WITH RECURSIVE waiting AS (
			(SELECT feed FROM OUTBOX ORDER BY feed LIMIT 1)
			UNION ALL
			SELECT (SELECT o.feed FROM OUTBOX AS o WHERE o.feed > w.feed ORDER BY o.feed LIMIT 1) FROM waiting AS w WHERE w.feed IS NOT NULL
		)
		SELECT row_security_active('OUTBOX'), '', 0
		UNION ALL
		SELECT false, w.feed, coalesce((SELECT o.id FROM OUTBOX AS o WHERE o.feed = w.feed ORDER BY o.feed DESC, o.id DESC LIMIT 1), 0)
		FROM waiting AS w WHERE w.feed IS NOT NULL`, "OUTBOX", d.outbox()))
	found := map[string]int64{}
	if err == nil {
		var hidden bool
		var feed string
		var id int64
		_, err = pgx.ForEachRow(rows, []any{&hidden, &feed, &id}, func() error {
			if hidden {
				return errHidden
			}
			if feed != "" {
				found[feed] = id
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("look for rows in the outbox: %w", setup(err))
	}
	return found, nil
}
