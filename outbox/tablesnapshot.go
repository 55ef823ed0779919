package outbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// ErrEmpty means that both the table and the feed are empty, so there is no position in the feed
// for a snapshot to name. The triggers have been installed all the same.
var ErrEmpty = errors.New("table and feed are empty")

// AttachSnapshot is like [DB.Attach], but also writes the current contents of the table as a
// snapshot with the name of the feed. A consumer that reads the snapshot and then the feed from the
// snapshot's position gets every change once.
//
// The cut is exact although others continue to write. The triggers are installed under a lock that
// blocks writers for a moment: all changes before the lock are committed, and all changes after it
// are published. Under the same lock, a marker is published: a PUT of one of the rows, unchanged.
// Also under this lock, a second transaction takes the snapshot of the database from which the rows
// are then read. So the rows are as they were when the marker was published. An event of the table
// that was published before the lock has a smaller id than the marker and is visible whenever the
// marker is, so it precedes the marker in the feed. An event published after the lock has a greater
// id and is never visible without the marker. The position of the snapshot is that of the marker.
//
// The marker must be in the feed before the snapshot can name it. It is moved there by a runner
// with the configuration move, or by a runner that is already running. The configuration write may
// have Progress set, but not Feed or CreatedAt.
//
// An empty table has no row for a marker. In that case the snapshot is empty, and its position is
// the end of the feed before the triggers were installed: the entities after that position lead to
// the current contents of the table.
func (d *DB) AttachSnapshot(ctx context.Context, c Capture, move Config, write snapshots.Config) (*snapshot.Index, error) {
	index, err := d.attachSnapshot(ctx, c, move, write)
	if err != nil {
		return nil, fmt.Errorf("snapshot of table %s for feed %q: %w", c.Table, c.Feed, err)
	}
	return index, nil
}

func (d *DB) attachSnapshot(ctx context.Context, c Capture, move Config, write snapshots.Config) (*snapshot.Index, error) {
	move.Feed = c.Feed
	store := move.Store
	if move.Local != nil {
		store = move.Local
	}
	end, err := endOf(ctx, store, c.Feed)
	if err != nil {
		return nil, err
	}
	var old reading
	defer func() { old.close(context.WithoutCancel(ctx)) }()
	var marker string
	err = d.attach(ctx, c, func(tx pgx.Tx, r relation) (err error) {
		old.close(ctx) // of an earlier attempt
		if marker, err = d.publishMarker(ctx, tx, r); err == nil && marker != "" {
			old, err = d.read(ctx, r)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if marker == "" {
		if end == nil {
			return nil, ErrEmpty
		}
		write.Feed = end
		return snapshots.Write(ctx, store, c.Feed, func(func(*feed.Entity, error) bool) {}, write)
	}
	if err := d.moveUntil(ctx, move, marker); err != nil {
		return nil, err
	}
	if write.Feed, err = find(ctx, store, c.Feed, marker); err != nil {
		return nil, err
	}
	return snapshots.Write(ctx, store, c.Feed, old.entities(ctx), write)
}

// endOf returns the position of the last entity of a feed, or nil if the feed does not
// exist.
func endOf(ctx context.Context, store storage.Store, name string) (*snapshot.FeedPosition, error) {
	newest, err := chain.NewReader(store, name).Newest(ctx)
	switch {
	case errors.Is(err, chain.ErrNoFeed):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &snapshot.FeedPosition{URL: layout.FeedPath(name), Page: layout.FeedPagePath(name, newest.Number),
		ContentID: newest.LastContentID, LastModified: newest.Last}, nil
}

// publishMarker publishes one of the rows unchanged, and returns the Content-ID of the event, or ""
// if the table is empty.
func (d *DB) publishMarker(ctx context.Context, tx pgx.Tx, r relation) (id string, err error) {
	if err := render(ctx, tx); err != nil {
		return "", err
	}
	err = tx.QueryRow(ctx, `INSERT INTO `+d.outbox()+` (feed, key, body) SELECT $1, `+r.key("r")+`, convert_to(`+r.body("r")+`, 'UTF8') FROM `+
		r.name+` AS r LIMIT 1 RETURNING content_id`, r.Feed).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return id, err
}

// render makes the transaction convert values to text in the same way as the triggers.
func render(ctx context.Context, tx pgx.Tx) error {
	var set strings.Builder
	for _, s := range rendering {
		fmt.Fprintf(&set, "SET LOCAL %s = %s; ", s.name, s.value)
	}
	_, err := tx.Exec(ctx, set.String()+"SET LOCAL row_security = off")
	return err
}

// disableTimeouts turns off the server's timeouts for a long transaction. Some versions of
// PostgreSQL do not have all of the settings.
func disableTimeouts(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SELECT set_config(name, '0', true) FROM pg_catalog.pg_settings
		WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')`)
	return err
}

// moveUntil runs a runner until the event with the given Content-ID has left the outbox.
func (d *DB) moveUntil(ctx context.Context, c Config, id string) error {
	runner, err := d.NewRunner(c)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	var failure error
	go func() {
		defer close(ended)
		failure = runner.Run(running)
	}()
	defer func() {
		stop()
		<-ended
	}()
	for {
		var waiting bool
		err := d.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+d.outbox()+` WHERE feed = $1 AND content_id = $2)`, c.Feed, id).Scan(&waiting)
		if err != nil || !waiting {
			return setup(err)
		}
		select {
		case <-ended:
			return failure
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// find returns the position of an entity. It searches from the end of the feed.
func find(ctx context.Context, store storage.Store, name, id string) (*snapshot.FeedPosition, error) {
	pages := chain.NewReader(store, name)
	newest, err := pages.Newest(ctx)
	if err != nil {
		return nil, err
	}
	for n := newest.Number; n > 0; n-- {
		for h, err := range pages.Headers(ctx, n) {
			if err != nil {
				return nil, err
			}
			if string(h.Get("Content-ID")) == id {
				at := &snapshot.FeedPosition{URL: layout.FeedPath(name), Page: layout.FeedPagePath(name, n), ContentID: id}
				at.LastModified, err = feed.ParseTime(string(h.Get("Last-Modified")))
				return at, err
			}
		}
	}
	return nil, fmt.Errorf("%w: it does not contain entity %s, which was moved: is the feed in another store?", ErrForeign, id)
}

// A reading is a transaction that reads the contents of a table at one moment.
type reading struct {
	tx pgx.Tx
	r  relation
}

// Up to readRows rows are read at a time. Their JSON is read with them if it is at most readInline
// bytes long. Longer JSON is read in pieces of readPiece bytes.
const (
	readRows   = 64
	readInline = 64 << 10
	readPiece  = 4 << 20
)

// read begins to read the table. It gives up soon if it cannot, since the caller's lock on the
// table blocks writers.
func (d *DB) read(ctx context.Context, r relation) (reading, error) {
	begin, cancel := context.WithTimeout(ctx, stallLimit)
	defer cancel()
	tx, err := d.pool.BeginTx(begin, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return reading{}, fmt.Errorf("begin to read the table on a second connection: %w", err)
	}
	old := reading{tx, r}
	// The first statement that needs a snapshot takes the snapshot for the whole transaction.
	if err = disableTimeouts(ctx, tx); err == nil {
		err = render(ctx, tx)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `SET LOCAL lock_timeout = 1000; DECLARE feedctl NO SCROLL CURSOR FOR SELECT key, CASE WHEN size <= `+fmt.Sprint(readInline)+` THEN body END, size, place, part
			FROM (SELECT `+r.key("r")+` AS key, body, octet_length(body) AS size, r.ctid::text AS place, r.tableoid AS part
				FROM `+r.name+` AS r, LATERAL (SELECT convert_to(`+r.body("r")+`, 'UTF8') AS body OFFSET 0) AS json) AS rows`)
	}
	if err != nil {
		old.close(ctx)
		return reading{}, err
	}
	return old, nil
}

func (r *reading) close(ctx context.Context) {
	if r.tx != nil {
		_ = r.tx.Rollback(ctx) // read-only
		r.tx = nil
	}
}

func (r *reading) entities(ctx context.Context) func(yield func(*feed.Entity, error) bool) {
	return func(yield func(*feed.Entity, error) bool) {
		for {
			some, err := r.next(ctx)
			if err != nil {
				yield(nil, fmt.Errorf("read table: %w", err))
				return
			}
			if len(some) == 0 {
				return
			}
			for _, e := range some {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

func (r *reading) next(ctx context.Context) ([]*feed.Entity, error) {
	found, err := r.tx.Query(ctx, fmt.Sprintf("FETCH %d FROM feedctl", readRows))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, func(row pgx.CollectableRow) (*feed.Entity, error) {
		e := &feed.Entity{ContentType: "application/json"}
		var key, place string
		var part uint32
		if err := row.Scan(&key, &e.Body, &e.Size, &place, &part); err != nil {
			return nil, err
		}
		e.ContentLocation = feed.EncodeKey(key)
		if e.Size > readInline {
			e.Stream = &rowReader{ctx: ctx, reading: r, place: place, part: part, left: e.Size}
		}
		return e, nil
	})
}

// A rowReader reads the JSON of a large row in pieces.
type rowReader struct {
	*reading
	ctx   context.Context
	place string // ctid
	part  uint32 // table or partition
	piece []byte
	at    int64
	left  int64
}

func (b *rowReader) Read(p []byte) (int, error) {
	if len(b.piece) == 0 {
		if b.left == 0 {
			return 0, io.EOF
		}
		err := b.tx.QueryRow(b.ctx, `SELECT substring(convert_to(`+b.r.body("r")+`, 'UTF8') FROM $3::int FOR $4::int) FROM `+b.r.name+
			` AS r WHERE ctid = $1::tid AND tableoid = $2`, b.place, b.part, b.at+1, readPiece).Scan(&b.piece)
		if err == nil && len(b.piece) == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, fmt.Errorf("read row at %s: %w", b.place, err)
		}
		b.at += int64(len(b.piece))
		b.left -= int64(len(b.piece))
	}
	n := copy(p, b.piece)
	b.piece = b.piece[n:]
	return n, nil
}
