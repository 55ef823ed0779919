package kinto

import (
	"context"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/kinto"
)

// tailPage reads a page of older records, newest first. After the last page, all ids are compared.
func (r *reader) tailPage(ctx context.Context, pieces chan<- *bridge.Piece) error {
	l := &listing{reader: r, pieces: pieces, older: true, pages: 1, begun: func(kinto.Page) error { return nil }}
	limit := r.limit
	if r.tailToken == "" {
		r.limit = min(limit, tailLimit)
	}
	err := l.read(ctx, kinto.Query{Sort: kinto.NewestFirst, Max: r.at.Tail, Token: r.tailToken})
	r.limit = limit
	r.tailToken = "" // after a failure, the page begins at the position
	if err != nil {
		return err
	}
	if r.tailToken = l.next; l.next != "" {
		return nil
	}
	return r.reconcile(ctx, pieces, "the oldest record has been read")
}

// publishOlder publishes rows of a list that was read newest first. What the feed already has for
// their ids is newer.
func (s *run) publishOlder(ctx context.Context, rows []kinto.Row) error {
	for _, row := range rows {
		held, err := s.bridge.core.Index.Look(row.ID)
		if err != nil {
			return err
		}
		if row.Deleted || held[0] != (bridge.Held{}) {
			s.count(func(p *bridge.Progress) { p.Dropped++ })
			continue
		}
		if err := s.put(ctx, row, held[0]); err != nil {
			return err
		}
	}
	return nil
}
