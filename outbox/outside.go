package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/producer"
)

// outside moves rows to pages in another store, in steps that can be cut short
// anywhere: a batch is noted, published, and deleted when the next is noted.
type outside struct {
	config Config
	db     *DB
	mark   mark
	ahead  *ahead // reads the next batch, if the last was full
	feed   *producer.Feed
	pages  *chain.Reader
	state  state // as it was saved last, if feed is not nil
	done   bool  // the pending batch is in the feed
	page   int64 // that the feed has; what is published next is not before it
}

func newOutside(d *DB, c Config) *outside { return &outside{config: c, db: d} }

func (o *outside) move(ctx context.Context) (m moved, err error) {
	defer func() {
		if err != nil {
			o.close()
		}
	}()
	if o.feed == nil {
		if m, err = o.resume(ctx); err != nil || m.rows > 0 {
			return m, err
		}
	}
	batch, err := o.note(ctx)
	if err != nil {
		return moved{}, err
	}
	m = moved{len(batch.ids), batch.bytes, batch.bad, batch.full, o.mark.from, o.mark.last()}
	if batch.full {
		o.ahead = o.config.readAhead(ctx, o.db, o.bodies(), o.mark, batch.ids)
	}
	if len(batch.ids) == 0 {
		return m, nil
	}
	return m, o.publish(ctx, batch)
}

// note deletes the rows of the batch that has been published and notes the next, in
// one transaction.
func (o *outside) note(ctx context.Context) (r rows, err error) {
	// Nobody else has moved what was read ahead, unless the state has changed.
	r, read, err := o.ahead.wait()
	o.ahead = nil
	if err != nil {
		return rows{}, err
	}
	var next state
	err = o.db.do(ctx, func(tx pgx.Tx) error {
		now, err := o.config.lock(ctx, tx, inStore)
		if err != nil {
			return err
		}
		if now.batch != o.state.batch || now.checkpoint != o.state.checkpoint || deref(now.pending) != deref(o.state.pending) {
			return fmt.Errorf("note a batch after batch %d of feed %q: %w", o.state.batch, o.config.Feed, errLeaseLost)
		}
		if err := o.mark.look(ctx, tx, time.Now()); err != nil {
			return err
		}
		var before []int64
		next = o.state
		if o.done {
			before, next = o.state.ids, o.state.settled(*o.state.pending)
			if _, err := o.config.remove(ctx, tx, before, nil); err != nil {
				return err
			}
		}
		if !read {
			if r, err = o.config.take(ctx, tx, o.bodies(), o.mark, nil); err != nil {
				return err
			}
		}
		if len(r.ids) > 0 {
			next = next.next(r.ids, o.page)
		}
		if _, err := o.config.remove(ctx, tx, nil, r.bad); err != nil {
			return err
		}
		if !o.done && len(r.ids) == 0 {
			return nil
		}
		return o.config.save(ctx, tx, next)
	})
	if err != nil {
		return rows{}, err
	}
	o.state, o.done = next, false
	o.mark.pass(r)
	return r, nil
}

// publish publishes the batch that is pending.
func (o *outside) publish(ctx context.Context, r rows) error {
	receipt, err := o.feed.PublishBatch(ctx, producer.Batch{
		Entities: r.entities, Checkpoint: []byte(*o.state.pending), Previous: []byte(o.state.checkpoint),
	})
	if err != nil {
		return err
	}
	if receipt.Published > 0 {
		o.done, o.page = true, receipt.Page
		return nil
	}
	// All Content-IDs were in the feed. Either the batch is, or each of its events was
	// published before under the same name: then there is nothing to write that the
	// checkpoint could be part of.
	return o.forget(ctx)
}

// forget ends the pending batch, whose entities are in the feed, whatever the
// feed's checkpoint is.
func (o *outside) forget(ctx context.Context) error {
	checkpoint, err := producer.ReadCheckpoint(ctx, o.config.Store, o.config.Feed)
	if err != nil {
		return err
	}
	if string(checkpoint) == *o.state.pending {
		o.done = true
		return nil
	}
	err = o.settle(ctx, o.state.checkpoint)
	o.close() // the producer waits for an opportunity to store the checkpoint
	return err
}

// settle deletes the rows of the pending batch and nothing more.
func (o *outside) settle(ctx context.Context, checkpoint string) error {
	return o.db.do(ctx, func(tx pgx.Tx) error {
		now, err := o.config.lock(ctx, tx, inStore)
		if err != nil {
			return err
		}
		if now.pending == nil || *now.pending != *o.state.pending {
			return nil // another runner has done so
		}
		if _, err := o.config.remove(ctx, tx, now.ids, nil); err != nil {
			return err
		}
		return o.config.save(ctx, tx, now.settled(checkpoint))
	})
}

// bodies reads large bodies while a batch is published, after its transaction.
func (o *outside) bodies() bodies { return bodies{o.db.pool, o.db.outbox()} }

// close forgets all that is known of the feed.
func (o *outside) close() {
	o.ahead.cancel()
	if o.feed != nil {
		o.feed.Abort()
	}
	*o = outside{config: o.config, db: o.db}
}
