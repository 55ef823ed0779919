package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/postgres"
)

// inside moves rows to pages in the same database, in one transaction for each
// batch.
type inside struct {
	config Config
	db     *DB
	mark   mark
	ahead  *ahead // reads the next batch, if the last was full
	// The producer lives as long as its transactions are committed: what it knows
	// of the end of the feed is true then.
	feed  *producer.Feed
	store *txStore
	pages *postgres.Tx // of the present transaction
	tx    pgx.Tx
}

func newInside(d *DB, c Config) *inside { return &inside{config: c, db: d} }

func (i *inside) move(ctx context.Context) (m moved, err error) {
	r, read, err := i.ahead.wait()
	i.ahead = nil
	if err == nil {
		err = i.db.do(ctx, func(tx pgx.Tx) (err error) { return i.moveIn(ctx, tx, &r, read) })
	}
	if err != nil {
		i.reset()
		return moved{}, err
	}
	i.mark.pass(r)
	return moved{len(r.ids), r.bytes, r.bad, r.full, i.mark.from, i.mark.last()}, nil
}

// moveIn moves rows in one transaction: those that have been read, or others. What
// was read may have been moved by another runner since; then it cannot be removed.
func (i *inside) moveIn(ctx context.Context, tx pgx.Tx, r *rows, read bool) error {
	if _, err := i.config.lock(ctx, tx, inDatabase); err != nil {
		return err
	}
	if err := i.mark.look(ctx, tx, time.Now()); err != nil {
		return err
	}
	if !read {
		var err error
		if *r, err = i.config.take(ctx, tx, i.bodies(), i.mark, nil); err != nil {
			return err
		}
	}
	if r.full {
		after := i.mark
		after.pass(*r)
		i.ahead = i.config.readAhead(ctx, i.db, i.bodies(), after, r.all())
	}
	if err := i.publish(ctx, tx, r.entities); err != nil {
		return err
	}
	all := int64(len(r.ids) + len(r.bad))
	removed, err := i.config.remove(ctx, tx, r.ids, r.bad)
	if err == nil && removed != all {
		err = fmt.Errorf("remove %d rows from the outbox of feed %q: only %d are there: %w", all, i.config.Feed, removed, errLeaseLost)
	}
	return err
}

// bodies reads large bodies in the transaction that publishes them.
func (i *inside) bodies() bodies { return bodies{i, i.db.outbox()} }

// QueryRow runs a query in the present transaction, while pages are not written.
func (i *inside) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return exclusiveRow{i.pages, func() pgx.Row { return i.tx.QueryRow(ctx, sql, args...) }}
}

// An exclusiveRow is one whose query is run by Scan, when nobody else uses the
// transaction.
type exclusiveRow struct {
	pages *postgres.Tx
	query func() pgx.Row
}

func (r exclusiveRow) Scan(dest ...any) error {
	return r.pages.Exclusively(func() error { return r.query().Scan(dest...) })
}

// publish writes the pages. The entities of one transaction are never published
// twice, since a second attempt needs another transaction.
func (i *inside) publish(ctx context.Context, tx pgx.Tx, entities []*feed.Entity) (err error) {
	if len(entities) == 0 {
		return nil
	}
	if i.store == nil {
		i.store = newTxStore()
	}
	i.tx, i.pages = tx, i.config.Local.WithTx(tx)
	i.store.open(i.pages)
	defer func() {
		if cause := i.store.shut(); cause != nil {
			err = fmt.Errorf("write pages of feed %q: %w", i.config.Feed, cause)
		}
	}()
	if i.feed == nil {
		if i.feed, err = producer.Open(ctx, i.store, i.config.Feed, i.config.Producer); err != nil {
			return err
		}
		// A transaction that has failed stays so: to try again in it is in vain.
		go func(f *producer.Feed, broken <-chan struct{}) {
			<-broken
			f.Abort()
		}(i.feed, i.store.broken)
	}
	_, err = i.feed.Publish(ctx, entities...)
	return err
}

// reset forgets what was true only if the transaction was committed.
func (i *inside) reset() {
	if i.store != nil {
		i.store.fail(errors.New("transaction was not committed"))
	}
	i.ahead.cancel()
	*i = inside{config: i.config, db: i.db}
}

func (i *inside) close() { i.reset() }
