package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/position"
)

// Standings reads the positions of consumers in the database that s names: those of one table, or
// of all tables in the first schema of the search_path. It creates nothing, and works while
// consumers have their sinks open.
func Standings(ctx context.Context, s sink.Spec) (found []sink.Standing, err error) {
	url, o, err := parseSpec(s)
	if err != nil {
		return nil, err
	}
	config, err := parseConfig(url)
	if err != nil {
		return nil, err
	}
	positions, table := pgx.Identifier{position.Table}, table{}
	if o.Table != "" {
		if table, err = parseTable(o.Table); err != nil {
			return nil, err
		}
		if table.schema != "" {
			positions = pgx.Identifier{table.schema, position.Table}
		}
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("read sink %s: %w", sink.Redact(s.String()), err)
		}
	}()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, `SELECT table_name, name, position FROM `+positions.Sanitize()+`
		WHERE $1 IN ('', table_name) AND $2 IN ('', name) ORDER BY table_name, name`, table.name, o.Name)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (one sink.Standing, err error) {
		var name, at string
		if err := row.Scan(&one.Name, &name, &at); err != nil {
			return one, err
		}
		one.Name = strings.TrimSpace(one.Name + " " + name) // consumers of custom tables have no table name
		return one, json.Unmarshal([]byte(at), &one.Position)
	})
}
