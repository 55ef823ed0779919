package producer

import (
	"context"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/storage"
)

// checkBeyond checks that pages found beyond the newest one are orphans.
func (f *Feed) checkBeyond(newest *chain.Page) error {
	var old []*chain.Page
	for _, p := range f.chain.Beyond() {
		if f.isOld(p, newest) {
			old = append(old, p)
		}
	}
	return f.refuse(newest, old)
}

// orphan returns the page with the number after newest, or nil if there is none. It returns an error if that page must
// not be replaced.
func (f *Feed) orphan(ctx context.Context, newest *chain.Page) (*chain.Page, error) {
	p, err := f.chain.Orphan(ctx, newest)
	if err != nil || p == nil {
		return nil, err
	}
	if f.isOld(p, newest) {
		return nil, f.refuse(newest, []*chain.Page{p})
	}
	return p, nil
}

func (f *Feed) refuse(newest *chain.Page, old []*chain.Page) error {
	if len(old) == 0 {
		return nil
	}
	return chain.NewLostError(f.name, newest, old, chain.Overdue)
}

// isOld reports whether p, a page beyond the newest one, is too old to be replaced, because it may not be an orphan.
func (f *Feed) isOld(p, newest *chain.Page) bool { return p.Overdue(newest, f.clock.reference()) }

// recordSettled records in the newest page that all pages before it are linked. The newest page may lack that record
// because it was written at the same time as the pages before it. If one of those pages is lost later, the record
// keeps the others from being mistaken for orphans. The feed is valid without the record, so an error is only logged.
func (f *Feed) recordSettled(ctx context.Context) {
	t := &f.tail
	if ctx.Err() != nil || !t.known || !t.ours || t.newest.Settled >= t.newest.Number-1 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, f.config.RetryFor)
	defer cancel()
	p := *t.newest
	p.Settled = p.Number - 1
	meta, err := p.Meta()
	if err == nil {
		_, err = f.store.Append(ctx, f.key(p.Number), p.Version, meta, storage.Last(storage.Bytes()))
	}
	if err != nil && !lostRace(err) {
		f.config.Logger.Warn("could not record in the newest page that the pages before it are complete", "feed", f.name, "page", p.Number, "error", err)
	}
}
