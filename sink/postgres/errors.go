package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// MaxBody is the limit of a body in bytes: PostgreSQL has values of up to 1 GiB, and a
// row with all else in it must not be larger, either.
const MaxBody = 1<<30 - 1<<20

// A TooLargeError is returned for an entity that is too large for a row. Nothing of its
// batch is kept.
type TooLargeError struct {
	Key       string
	ContentID string
	// Size of the body in bytes; -1 if it is only known to be above the limit.
	Size int64
	// Limit is [MaxBody].
	Limit int64
}

// Error names the key and the Content-ID.
func (e *TooLargeError) Error() string {
	size := "more bytes"
	if e.Size >= 0 {
		size = fmt.Sprintf("%d bytes", e.Size)
	}
	return fmt.Sprintf("entity %q with key %q has %s than PostgreSQL takes in a value (%d): use the sink dir or jsonl", e.ContentID, e.Key, size, e.Limit)
}

// refused reports whether an error is of the values in a row, or of a trigger that refuses
// them, or says that two keys are one as values of the column's type.
func refused(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") ||
		slices.Contains([]string{"54000", "P0001", "21000"}, pg.Code)) // program_limit_exceeded, raise_exception, cardinality_violation
}
