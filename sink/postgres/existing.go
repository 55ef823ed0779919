package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// An existing describes a column of an existing table.
type existing struct {
	typ string // its name, without length or precision
	// needed means that the column is NOT NULL, has no default, and cannot be set by a trigger.
	needed bool
	// unique means that the column has a unique index that is neither partial nor deferrable.
	unique bool
}

// checkTable checks that an existing table has the sink's columns, with the right types, and
// accepts rows without values for any other columns.
func (t *target) checkTable(ctx context.Context, tx pgx.Tx) error {
	have, err := t.existingColumns(ctx, tx)
	if err != nil {
		return err
	}
	for _, c := range t.table.columns {
		if _, ok := have[c.name]; ok {
			continue
		}
		err := fmt.Errorf("the table has no column %s: use another table, or ALTER TABLE %s ADD %s %s",
			c.name, t.table.quoted(t.table.name), pgx.Identifier{c.name}.Sanitize(), c.define)
		if len(t.projections) > 0 && c.name == t.table.key && c.name == keyColumn {
			err = fmt.Errorf("%w; or name the column with the key, as in id=@key:bigint", err)
		}
		return err
	}
	for _, p := range t.projections {
		if typ := have[p.name].typ; typ != p.typ {
			return fmt.Errorf("column %s of the table has the type %s, not %s: change its type, or use another table", p.name, typ, p.typ)
		}
	}
	if !have[t.table.key].unique {
		return fmt.Errorf("column %s, which has the key, needs a primary key or a unique index on it alone, not partial and not deferrable", t.table.key)
	}
	for _, c := range t.table.columns {
		delete(have, c.name)
	}
	for name, c := range have {
		if c.needed {
			return fmt.Errorf("column %s of the table is NOT NULL, but has no default and no value: add a default, or name the column in --columns", name)
		}
	}
	return nil
}

func (t *target) existingColumns(ctx context.Context, db querier) (have map[string]existing, err error) {
	rows, err := db.Query(ctx, `
		SELECT a.attname, format_type(a.atttypid, -1),
			a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AND NOT EXISTS (
				SELECT FROM pg_catalog.pg_trigger WHERE tgrelid = c.oid AND tgtype & 7 = 7), -- BEFORE INSERT FOR EACH ROW
			EXISTS (SELECT FROM pg_catalog.pg_index WHERE indrelid = c.oid AND indisunique AND indimmediate AND indisvalid
				AND indpred IS NULL AND indnkeyatts = 1 AND indkey[0] = a.attnum)
		FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
		WHERE c.oid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped`, t.table.quoted(t.table.name))
	if err != nil {
		return nil, err
	}
	have = make(map[string]existing)
	var name string
	var c existing
	_, err = pgx.ForEachRow(rows, []any{&name, &c.typ, &c.needed, &c.unique}, func() error { have[name] = c; return nil })
	return have, err
}
