package postgres

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// MaxBody is the limit of a body in bytes: PostgreSQL has values of up to 1 GiB, and a
// row with all else in it must not be larger, either.
const MaxBody = 1<<30 - 1<<20

// refused reports whether an error is of the values in a row, or of a trigger that refuses
// them, or says that two keys are one as values of the column's type.
func refused(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") ||
		slices.Contains([]string{"54000", "P0001", "21000"}, pg.Code)) // program_limit_exceeded, raise_exception, cardinality_violation
}
