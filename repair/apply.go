package repair

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// restore adds a step for a page that must be restored.
func (x *examination) restore(c *candidate) {
	p, r := c.page, c.leftover
	if r == nil {
		return
	}
	x.report.Steps = append(x.report.Steps, Step{
		Action: Restore, Page: p.Number, Key: r.Key, Entities: p.Entities, Proven: c.proven,
		do: func(ctx context.Context) error {
			meta, err := p.Meta()
			if err != nil {
				return err
			}
			_, err = x.recoverer.Restore(ctx, *r, p.Size, meta)
			return err
		},
	})
	if c.was != nil && c.was.Entities > p.Entities {
		x.report.Lost = append(x.report.Lost, Loss{
			Page: p.Number, Entities: c.was.Entities - p.Entities, First: p.Last, Last: c.was.Last, LastID: c.was.LastContentID,
		})
	}
}

// move returns the step that moves a page out of the feed, and the loss, or nil if there
// is no page.
func (x *examination) move(n int64, f *found) (*Step, *Loss, error) {
	key := layout.FeedPage(x.feed, n)
	step := &Step{Action: MoveAside, Page: n, Key: key}
	loss := &Loss{Page: n, Entities: -1}
	if p := f.page; p != nil {
		*loss = Loss{Page: n, Entities: p.Entities, First: p.First, Last: p.Last, LastID: p.LastContentID}
	}
	object, err := x.store.Get(x.ctx, key, 0, -1)
	switch {
	case err == nil:
		text, err := readText(object.Body, object.Size)
		if err := errors.Join(err, object.Body.Close()); err != nil {
			return nil, nil, err
		}
		if text != nil {
			loss.FirstID = text.firstID
		}
		step.To = x.asideKey(n, object.Version)
	case x.recoverer == nil && errors.Is(err, storage.ErrNotFound):
		return nil, nil, nil
	case errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrLayout):
		leftovers, err := x.recoverer.Leftovers(x.ctx, key)
		if err != nil || f.none && len(leftovers) == 0 {
			return nil, nil, err
		}
		if len(leftovers) == 0 { // metadata without a body, which is useless
			step.do = func(context.Context) error { return nil }
			step.finish = func(ctx context.Context) error { return x.store.Delete(ctx, key) }
			return step, loss, nil
		}
		return x.moveLeftover(step, loss, leftovers[0])
	default:
		return nil, nil, err
	}
	loss.Aside = step.To
	step.do = func(ctx context.Context) error { return x.copyAside(ctx, key, step.To) }
	step.finish = func(ctx context.Context) error { return x.store.Delete(ctx, key) }
	return step, loss, nil
}

// moveLeftover returns a step that makes a leftover body an object again and then moves the object.
func (x *examination) moveLeftover(step *Step, loss *Loss, r storage.Leftover) (*Step, *Loss, error) {
	step.To = x.asideKey(step.Page, storage.Version(r.Body))
	loss.Aside = step.To
	if text, err := x.read(&r); err != nil {
		return nil, nil, err
	} else if text != nil {
		loss.Entities, loss.FirstID, loss.LastID, loss.First, loss.Last = text.entities, text.firstID, text.lastID, text.first, text.last
	}
	step.do = func(ctx context.Context) error {
		if _, err := x.recoverer.Restore(ctx, r, r.Size, storage.Meta{}); err != nil {
			return err
		}
		return x.copyAside(ctx, step.Key, step.To)
	}
	step.finish = func(ctx context.Context) error { return x.store.Delete(ctx, step.Key) }
	return step, loss, nil
}

// asideKey returns the key to which a page is moved. The key depends only on the number and the state of the
// page.
func (x *examination) asideKey(n int64, v storage.Version) string {
	sum := sha256.Sum256([]byte(v))
	return layout.FeedAsidePage(x.feed, n, hex.EncodeToString(sum[:6]))
}

// copyAside copies an object, unless an earlier repair has already made the copy.
func (x *examination) copyAside(ctx context.Context, from, to string) error {
	info, err := x.store.Stat(ctx, from)
	if err != nil {
		return err
	}
	_, err = x.store.Create(ctx, to, info.Meta, &copied{ctx: ctx, store: x.store, info: info})
	if errors.Is(err, storage.ErrExists) {
		return nil
	}
	return err
}

// A copied is the body of an object that is copied within the store.
type copied struct {
	ctx   context.Context
	store storage.Store
	info  storage.Info
}

// Size implements [storage.Body].
func (c *copied) Size() int64 { return c.info.Size }

// Open implements [storage.Body].
func (c *copied) Open() (io.ReadCloser, error) {
	object, err := c.store.Get(c.ctx, c.info.Key, 0, -1)
	if err != nil {
		return nil, err
	}
	if object.Version != c.info.Version {
		return nil, errors.Join(fmt.Errorf("%w: %s has changed", storage.ErrConflict, c.info.Key), object.Body.Close())
	}
	return object.Body, nil
}
