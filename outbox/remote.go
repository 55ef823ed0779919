package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/producer"
)

// remotePages moves rows to pages in another store, in steps that can be interrupted anywhere: a
// batch is recorded, then published, and its rows are deleted when the next batch is recorded.
type remotePages struct {
	config    Config
	db        *DB
	watermark watermark
	ahead     *ahead // reads the next batch, if the last was full
	feed      *producer.Feed
	pages     *chain.Reader
	state     state // as last saved; valid if feed is not nil
	done      bool  // the pending batch is in the feed
	page      int64 // number of the newest known page of the feed; the next batch is on this page or a later one
}

func newRemotePages(d *DB, c Config) *remotePages { return &remotePages{config: c, db: d} }

func (p *remotePages) move(ctx context.Context) (m moved, err error) {
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.feed == nil {
		if m, err = p.resume(ctx); err != nil || m.rows > 0 {
			return m, err
		}
	}
	batch, err := p.note(ctx)
	if err != nil {
		return moved{}, err
	}
	m = moved{len(batch.ids), batch.bytes, batch.bad, batch.full, p.watermark.from, p.watermark.last()}
	if batch.full {
		p.ahead = p.config.readAhead(ctx, p.db, p.bodies(), p.watermark, batch.ids)
	}
	if len(batch.ids) == 0 {
		return m, nil
	}
	return m, p.publish(ctx, batch)
}

// note deletes the rows of the published batch and records the next one, in one
// transaction.
func (p *remotePages) note(ctx context.Context) (r rows, err error) {
	// If another runner has moved rows that were read ahead, the state has changed.
	r, read, err := p.ahead.wait()
	p.ahead = nil
	if err != nil {
		return rows{}, err
	}
	var next state
	err = p.db.do(ctx, func(tx pgx.Tx) error {
		now, err := p.config.lock(ctx, tx, inStore)
		if err != nil {
			return err
		}
		if now.batch != p.state.batch || now.checkpoint != p.state.checkpoint || deref(now.pending) != deref(p.state.pending) {
			return fmt.Errorf("record the batch after batch %d of feed %q: %w", p.state.batch, p.config.Feed, errLeaseLost)
		}
		if err := p.watermark.update(ctx, tx, time.Now()); err != nil {
			return err
		}
		var before []int64
		next = p.state
		if p.done {
			before, next = p.state.ids, p.state.settled(*p.state.pending)
			if _, err := p.config.remove(ctx, tx, before, nil); err != nil {
				return err
			}
		}
		if !read {
			if r, err = p.config.take(ctx, tx, p.bodies(), p.watermark, nil); err != nil {
				return err
			}
		}
		if len(r.ids) > 0 {
			next = next.next(r.ids, p.page)
		}
		if _, err := p.config.remove(ctx, tx, nil, r.bad); err != nil {
			return err
		}
		if !p.done && len(r.ids) == 0 {
			return nil
		}
		return p.config.save(ctx, tx, next)
	})
	if err != nil {
		return rows{}, err
	}
	p.state, p.done = next, false
	p.watermark.advance(r)
	p.config.taken(r.oldest)
	return r, nil
}

// publish publishes the pending batch.
func (p *remotePages) publish(ctx context.Context, r rows) error {
	receipt, err := p.feed.PublishBatch(ctx, producer.Batch{
		Entities: r.entities, Checkpoint: []byte(*p.state.pending), Previous: []byte(p.state.checkpoint),
	})
	if err != nil {
		return err
	}
	if receipt.Published > 0 {
		p.done, p.page = true, receipt.Page
		return nil
	}
	// All Content-IDs are in the feed. Either the batch was published, or each of its events was
	// published before with the same Content-ID; in that case no page was written that could hold
	// the checkpoint.
	return p.forget(ctx)
}

// forget ends the pending batch when all its entities are in the feed, whether or not the feed has
// the checkpoint of the batch.
func (p *remotePages) forget(ctx context.Context) error {
	checkpoint, err := producer.ReadCheckpoint(ctx, p.config.Store, p.config.Feed)
	if err != nil {
		return err
	}
	if string(checkpoint) == *p.state.pending {
		p.done = true
		return nil
	}
	err = p.settle(ctx, p.state.checkpoint)
	p.close() // otherwise the producer would store the checkpoint together with later entities
	return err
}

// settle deletes the rows of the pending batch without recording another.
func (p *remotePages) settle(ctx context.Context, checkpoint string) error {
	return p.db.do(ctx, func(tx pgx.Tx) error {
		now, err := p.config.lock(ctx, tx, inStore)
		if err != nil {
			return err
		}
		if now.pending == nil || *now.pending != *p.state.pending {
			return nil // another runner has settled the batch
		}
		if _, err := p.config.remove(ctx, tx, now.ids, nil); err != nil {
			return err
		}
		return p.config.save(ctx, tx, now.settled(checkpoint))
	})
}

// bodies returns a reader of large bodies, for use while a batch is being published, outside
// transactions.
func (p *remotePages) bodies() bodies { return bodies{p.db.pool, p.db.outbox()} }

// close discards all state.
func (p *remotePages) close() {
	p.ahead.cancel()
	if p.feed != nil {
		p.feed.Abort()
	}
	*p = remotePages{config: p.config, db: p.db}
}
