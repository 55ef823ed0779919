package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/storage"
)

// Latest returns, for each prefix, a string that changes whenever the last n objects below the
// prefix, such as the last pages of a feed, are not the same objects or one of them has changed.
// Prefixes without objects are not in the result. Latest sends one statement, with an index search
// for each prefix.
func (s *Store) Latest(ctx context.Context, prefixes []string, n int) (map[string]string, error) {
	for _, prefix := range prefixes {
		if err := storage.CheckPrefix(prefix); err != nil {
			return nil, fmt.Errorf("read latest versions: %w", err)
		}
	}
	found := make(map[string]string, len(prefixes))
	err := retry(ctx, func() error {
		rows, err := s.pool.Query(ctx, s.table.sql.latest, mode, prefixes, n)
		if err != nil {
			return err
		}
		var prefix, text string
		_, err = pgx.ForEachRow(rows, []any{&prefix, &text}, func() error {
			found[prefix] = text
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read latest versions: %w", err)
	}
	return found, nil
}
