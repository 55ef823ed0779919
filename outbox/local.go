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

// localPages moves rows to pages in the same database, with one transaction for each batch.
type localPages struct {
	config    Config
	db        *DB
	watermark watermark
	ahead     *ahead // reads the next batch, if the last was full
	// If a transaction is not committed, the producer has a wrong view of the end of the feed,
	// and is closed.
	feed  *producer.Feed
	store *txStore
	pages *postgres.Tx // of the current transaction
	tx    pgx.Tx
}

func newLocalPages(d *DB, c Config) *localPages { return &localPages{config: c, db: d} }

func (p *localPages) move(ctx context.Context) (m moved, err error) {
	r, read, err := p.ahead.wait()
	p.ahead = nil
	if err == nil {
		err = p.db.do(ctx, func(tx pgx.Tx) (err error) { return p.moveIn(ctx, tx, &r, read) })
	}
	if err != nil {
		p.reset()
		return moved{}, err
	}
	p.watermark.advance(r)
	return moved{len(r.ids), r.bytes, r.bad, r.full, p.watermark.from, p.watermark.last()}, nil
}

// moveIn moves rows in one transaction: the rows that were read ahead or, if read is false, the
// next ones. If another runner has moved rows since they were read, removing them fails.
func (p *localPages) moveIn(ctx context.Context, tx pgx.Tx, r *rows, read bool) error {
	if _, err := p.config.lock(ctx, tx, inDatabase); err != nil {
		return err
	}
	if err := p.watermark.update(ctx, tx, time.Now()); err != nil {
		return err
	}
	if !read {
		var err error
		if *r, err = p.config.take(ctx, tx, p.bodies(), p.watermark, nil); err != nil {
			return err
		}
	}
	p.config.taken(r.oldest)
	if r.full {
		after := p.watermark
		after.advance(*r)
		p.ahead = p.config.readAhead(ctx, p.db, p.bodies(), after, r.all())
	}
	if err := p.publish(ctx, tx, r.entities); err != nil {
		return err
	}
	all := int64(len(r.ids) + len(r.bad))
	removed, err := p.config.remove(ctx, tx, r.ids, r.bad)
	if err == nil && removed != all {
		err = fmt.Errorf("remove %d rows from the outbox of feed %q: only %d are there: %w", all, p.config.Feed, removed, errLeaseLost)
	}
	return err
}

// bodies returns a reader of large bodies that uses the transaction that publishes them.
func (p *localPages) bodies() bodies { return bodies{p, p.db.outbox()} }

// QueryRow runs a query in the current transaction, while no page is being written.
func (p *localPages) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return exclusiveRow{p.pages, func() pgx.Row { return p.tx.QueryRow(ctx, sql, args...) }}
}

// An exclusiveRow is a row whose query runs in Scan, with exclusive use of the transaction.
type exclusiveRow struct {
	pages *postgres.Tx
	query func() pgx.Row
}

func (r exclusiveRow) Scan(dest ...any) error {
	return r.pages.Exclusively(func() error { return r.query().Scan(dest...) })
}

// publish writes the pages. It does not retry: a second attempt needs another
// transaction.
func (p *localPages) publish(ctx context.Context, tx pgx.Tx, entities []*feed.Entity) (err error) {
	if len(entities) == 0 {
		return nil
	}
	if p.store == nil {
		p.store = newTxStore()
	}
	p.tx, p.pages = tx, p.config.Local.WithTx(tx)
	p.store.open(p.pages)
	defer func() {
		if cause := p.store.shut(); cause != nil {
			err = fmt.Errorf("write pages of feed %q: %w", p.config.Feed, cause)
		}
	}()
	if p.feed == nil {
		if p.feed, err = producer.Open(ctx, p.store, p.config.Feed, p.config.Producer); err != nil {
			return err
		}
		// The producer must not keep retrying in a transaction that has failed.
		go func(f *producer.Feed, broken <-chan struct{}) {
			<-broken
			f.Abort()
		}(p.feed, p.store.broken)
	}
	_, err = p.feed.Publish(ctx, entities...)
	return err
}

// reset discards all state, because it is valid only if the transaction was committed.
func (p *localPages) reset() {
	if p.store != nil {
		p.store.fail(errors.New("transaction was not committed"))
	}
	p.ahead.cancel()
	*p = localPages{config: p.config, db: p.db}
}

func (p *localPages) close() { p.reset() }
