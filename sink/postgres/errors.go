package postgres

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// MaxBody is the maximum size of a body, in bytes. PostgreSQL limits each value, and all values of
// a row together, to 1 GiB.
const MaxBody = 1<<30 - 1<<20

// refused reports whether an error means that a row was rejected because of its values or by a
// trigger, or that two keys are equal as values of the column's type.
func refused(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") ||
		slices.Contains([]string{"54000", "P0001", "21000"}, pg.Code)) // program_limit_exceeded, raise_exception, cardinality_violation
}
