package against

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/patch"
	sqlitesink "github.com/feedctl/feedctl/sink/sqlite"
)

const (
	// table is the name of the table with the state of the feed.
	table = "state"
	// maxBody is the size, in bytes, up to which bodies are compared. Larger bodies count as different.
	maxBody = 16 << 20
	// listCommit is how many items of a list are written in one transaction.
	listCommit = 10_000
)

// tables holds the two sides of a comparison, in one file.
type tables struct {
	sink consumer.Sink // writes the state of the feed
	conn *sqlite.Conn
	deep bool
}

func openTables(ctx context.Context, file string, deep bool) (_ *tables, err error) {
	t := &tables{deep: deep}
	if t.sink, err = sqlitesink.OpenTemporary(ctx, file, table); err != nil {
		return nil, err
	}
	if !deep {
		t.sink = bodiless{t.sink}
	}
	t.conn, err = sqlite.OpenConn(file, sqlite.OpenReadWrite)
	for _, statement := range []string{
		"PRAGMA synchronous = OFF", "PRAGMA cache_size = -8192", // KiB
		"CREATE TABLE items (id TEXT NOT NULL PRIMARY KEY, version TEXT NOT NULL, key TEXT NOT NULL, content_id TEXT NOT NULL, as_is INTEGER NOT NULL, body BLOB)",
		"CREATE INDEX items_by_key ON items (key)",
	} {
		if err == nil {
			err = sqlitex.ExecuteTransient(t.conn, statement, nil)
		}
	}
	if err == nil {
		err = t.conn.CreateFunction("etag", &sqlite.FunctionImpl{NArgs: 1, Deterministic: true, Scalar: func(_ sqlite.Context, args []sqlite.Value) (sqlite.Value, error) {
			return sqlite.TextValue(etag(args[0].Text())), nil
		}})
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

// list replaces the items with those that a source has in the given state.
func (t *tables) list(ctx context.Context, from Source, state string) (err error) {
	if err := sqlitex.ExecuteTransient(t.conn, "DELETE FROM items", nil); err != nil {
		return err
	}
	insert, err := t.conn.Prepare("INSERT OR REPLACE INTO items (id, version, key, content_id, as_is, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
	if err != nil {
		return err
	}
	remove, err := t.conn.Prepare("DELETE FROM items WHERE id = ?1")
	if err != nil {
		return err
	}
	end := sqlitex.Transaction(t.conn)
	defer func() { end(&err) }()
	n := 0
	return from.List(ctx, state, t.deep, func(i Item) error {
		if i.Deleted {
			remove.BindText(1, i.Key)
			_, err := remove.Step()
			return errors.Join(err, remove.Reset())
		}
		insert.BindText(1, i.Key)
		insert.BindText(2, i.Version)
		insert.BindText(3, i.Copy.Key)
		insert.BindText(4, i.Copy.ContentID)
		insert.BindBool(5, i.Copy.AsIs)
		insert.BindNull(6)
		if t.deep && len(i.Body) <= maxBody {
			insert.BindBytes(6, i.Body)
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

// etag returns the value of the field ETag among header fields in JSON, as sinks write them, or "" if there
// is none.
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

// bodiless is a sink that replaces each body with an empty object. It also applies a PATCH, since that
// changes the Content-ID.
type bodiless struct{ consumer.Sink }

// Begin implements [consumer.Sink].
func (b bodiless) Begin(ctx context.Context) (consumer.Batch, error) {
	batch, err := b.Sink.Begin(ctx)
	return bodilessBatch{batch}, err
}

type bodilessBatch struct{ consumer.Batch }

// Apply implements [consumer.Batch].
func (b bodilessBatch) Apply(ctx context.Context, e *feed.Entity) error {
	bare := *e
	bare.Body, bare.Stream, bare.Size = []byte("{}"), nil, 0
	if e.Operation == feed.Patch {
		bare.ContentType = patch.Merge
	}
	return b.Batch.Apply(ctx, &bare)
}
