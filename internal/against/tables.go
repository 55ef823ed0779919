package against

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/patch"
	sqlitesink "github.com/feedctl/feedctl/sink/sqlite"
)

const (
	// table has the state of the feed.
	table = "state"
	// maxBody is the size up to which bodies are compared, in bytes. Larger ones differ.
	maxBody = 16 << 20
	// listCommit is how many items of a list are written in a transaction.
	listCommit = 10_000
)

// tables are the two sides of a comparison, in one file.
type tables struct {
	sink consumer.Sink // writes the state of the feed
	conn *sqlite.Conn
	deep bool
}

func openTables(ctx context.Context, file string, deep bool) (_ *tables, err error) {
	t := &tables{deep: deep}
	if t.sink, err = sqlitesink.Open(ctx, file, table); err != nil {
		return nil, err
	}
	if !deep {
		t.sink = bodiless{t.sink}
	}
	t.conn, err = sqlite.OpenConn(file, sqlite.OpenReadWrite)
	for _, statement := range []string{
		"PRAGMA synchronous = OFF", "PRAGMA cache_size = -8192", // KiB
		"CREATE TABLE items (key TEXT NOT NULL PRIMARY KEY, version TEXT NOT NULL, body BLOB)",
	} {
		if err == nil {
			err = sqlitex.ExecuteTransient(t.conn, statement, nil)
		}
	}
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *tables) close() (err error) {
	if t.conn != nil {
		err = t.conn.Close()
	}
	return errors.Join(err, t.sink.Close())
}

// list replaces the items by those of a source in a state.
func (t *tables) list(ctx context.Context, from Source, state string) (err error) {
	if err := sqlitex.ExecuteTransient(t.conn, "DELETE FROM items", nil); err != nil {
		return err
	}
	insert, err := t.conn.Prepare("INSERT OR REPLACE INTO items (key, version, body) VALUES (?1, ?2, ?3)")
	if err != nil {
		return err
	}
	end := sqlitex.Transaction(t.conn)
	defer func() { end(&err) }()
	n := 0
	return from.List(ctx, state, t.deep, func(i Item) error {
		insert.BindText(1, i.Key)
		insert.BindText(2, i.Version)
		insert.BindNull(3)
		if t.deep && len(i.Body) <= maxBody {
			insert.BindBytes(3, i.Body)
		}
		if _, err := insert.Step(); err != nil {
			return errors.Join(err, insert.Reset())
		}
		if err := insert.Reset(); err != nil {
			return err
		}
		if n++; n%listCommit == 0 {
			var none error
			end(&none)
			end = sqlitex.Transaction(t.conn)
			return none
		}
		return nil
	})
}

// A side is the rows of a table in the order of their keys.
type side struct {
	rows *sqlite.Stmt
	more bool
	key  string
	n    int64
}

func (s *side) next() (err error) {
	if s.more, err = s.rows.Step(); s.more {
		s.key = s.rows.ColumnText(0)
		s.n++
	}
	return err
}

// diff adds the differences to a report. Keys that the source does not cover are left out.
func (t *tables) diff(ctx context.Context, covers func(key string) bool, r *Report) (err error) {
	t.conn.SetInterrupt(ctx.Done())
	defer t.conn.SetInterrupt(nil)
	select1 := func(columns, table string) (*side, error) {
		column := "NULL"
		if t.deep {
			column = fmt.Sprintf("CASE WHEN octet_length(body) <= %d THEN CAST(body AS BLOB) END", maxBody)
		}
		rows, err := t.conn.Prepare(fmt.Sprintf("SELECT key, %s, %s FROM %s ORDER BY key", columns, column, table))
		return &side{rows: rows}, err
	}
	in, err := select1("headers", table)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.rows.Reset()) }()
	of, err := select1("version", "items")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, of.rows.Reset()) }()
	nextKey := func() error {
		for {
			if err := in.next(); err != nil || !in.more || covers(in.key) {
				return err
			}
			in.n--
		}
	}
	if err := errors.Join(nextKey(), of.next()); err != nil {
		return err
	}
	for in.more || of.more {
		onlyFeed, onlySource := in.more && (!of.more || in.key < of.key), of.more && (!in.more || of.key < in.key)
		switch {
		case onlyFeed:
			r.add(Difference{Key: in.key, Kind: extra, Feed: etag(in.rows.ColumnText(1))})
		case onlySource:
			r.add(Difference{Key: of.key, Kind: missing, Source: of.rows.ColumnText(1)})
		default:
			t.compare(in, of, r)
		}
		if !onlySource {
			err = nextKey()
		}
		if !onlyFeed && err == nil {
			err = of.next()
		}
		if err != nil {
			return err
		}
	}
	r.Keys, r.Items = in.n, of.n
	return nil
}

// compare compares two rows of the same key.
func (t *tables) compare(in, of *side, r *Report) {
	d := Difference{Key: in.key, Feed: etag(in.rows.ColumnText(1)), Source: of.rows.ColumnText(1)}
	switch {
	case d.Feed != d.Source:
		d.Kind = version
	case t.deep && !sameBody(in.rows, of.rows):
		d.Kind = body
	default:
		return
	}
	r.add(d)
}

// sameBody reports whether the bodies of two rows are the same JSON value.
func sameBody(a, b *sqlite.Stmt) bool {
	const column = 2
	if a.ColumnIsNull(column) || b.ColumnIsNull(column) {
		return false
	}
	x, y := make([]byte, a.ColumnLen(column)), make([]byte, b.ColumnLen(column))
	a.ColumnBytes(column, x)
	b.ColumnBytes(column, y)
	return bytes.Equal(x, y) || patch.Equal(x, y)
}

// etag returns the field ETag among fields in JSON, as sinks write them; "" if there is none.
func etag(headers string) string {
	var fields map[string][]string
	if json.Unmarshal([]byte(headers), &fields) != nil {
		return ""
	}
	for name, values := range fields {
		if strings.EqualFold(name, "ETag") && len(values) == 1 {
			return values[0]
		}
	}
	return ""
}

// bodiless is a sink to which no bodies are written.
type bodiless struct{ consumer.Sink }

// Begin implements [consumer.Sink].
func (b bodiless) Begin(ctx context.Context) (consumer.Batch, error) {
	batch, err := b.Sink.Begin(ctx)
	return bodilessBatch{batch}, err
}

type bodilessBatch struct{ consumer.Batch }

// Apply implements [consumer.Batch]. A PATCH changes only bodies.
func (b bodilessBatch) Apply(ctx context.Context, e *feed.Entity) error {
	if e.Operation == feed.Patch {
		return nil
	}
	bare := *e
	bare.Body, bare.Stream, bare.Size = nil, nil, 0
	return b.Batch.Apply(ctx, &bare)
}
