package postgres

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// params holds the values of a statement's parameters in their binary formats, and their types. If
// a body were an ordinary argument, pgx would copy it once more, to a new buffer.
type params struct {
	values  [][]byte
	types   []uint32
	formats []int16
}

func (p *params) add(typ uint32, value []byte) {
	p.values, p.types, p.formats = append(p.values, value), append(p.types, typ), append(p.formats, pgx.BinaryFormatCode)
}

func (p *params) text(s string)  { p.add(pgtype.TextOID, []byte(s)) }
func (p *params) bytea(b []byte) { p.add(pgtype.ByteaOID, notNil(b)) }
func (p *params) int8(n int64) {
	p.add(pgtype.Int8OID, binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// call calls a procedure that returns a row. It uses the connection of a transaction or one from a
// pool, and an unnamed statement. The values of the row are in binary format; nil is NULL.
func call(ctx context.Context, db database, sql string, p params) (row [][]byte, err error) {
	do := func(conn *pgx.Conn) error {
		r := conn.PgConn().ExecParams(ctx, sql, p.values, p.types, p.formats, []int16{pgx.BinaryFormatCode}).Read()
		if r.Err == nil && len(r.Rows) != 1 {
			return fmt.Errorf("%s returned %d rows", sql, len(r.Rows))
		}
		if r.Err == nil {
			row = r.Rows[0]
		}
		return r.Err
	}
	if pool, ok := db.(*pgxpool.Pool); ok {
		err = pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error { return do(c.Conn()) })
	} else {
		err = do(db.(interface{ Conn() *pgx.Conn }).Conn())
	}
	return row, err
}

// int8s returns the two values of a row, of type bigint. ok is false if one of them is NULL.
func int8s(row [][]byte) (a, b int64, ok bool) {
	if len(row) != 2 || len(row[0]) != 8 || len(row[1]) != 8 {
		return 0, 0, false
	}
	return int64(binary.BigEndian.Uint64(row[0])), int64(binary.BigEndian.Uint64(row[1])), true
}
