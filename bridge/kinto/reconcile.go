package kinto

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/kinto"
)

// goneMark precedes the time in the revision of a deletion without a tombstone.
const goneMark = ";gone="

func isGone(rev string) bool { return strings.Contains(rev, goneMark) }

// minGone is how many records may always be gone without a tombstone.
const minGone = 100

// reconcile compares the ids and stamps of all records with the feed, publishes those that it does
// not have, and deletes those that are gone.
func (r *reader) reconcile(ctx context.Context, pieces chan<- *bridge.Piece, reason string) error {
	log := r.bridge.config.Log.With("source", r.bridge.config.Source.URL(), "feed", r.bridge.config.Feed)
	log.Info("comparing all records with the feed", "reason", reason)
	before := r.bridge.Progress().Published
	compare := func(ctx context.Context, at *Position) error {
		if r.replaced != nil {
			at.Metadata, at.Marker = r.replaced.stamp, r.replaced.marker
		}
		return r.run.compare(ctx, at)
	}
	if err := r.wait(ctx, pieces, compare); err != nil {
		return fmt.Errorf("compare all records with the feed: %w", err)
	}
	log.Info("compared all records with the feed", "published", r.bridge.Progress().Published-before)
	r.stamp, r.overlapped, r.quiet, r.lower, r.tailToken = 0, time.Time{}, 0, time.Time{}, ""
	r.behind = !inFuture(r.at.Since) // otherwise there is no bound to read from
	r.counted, r.replaced = true, nil
	return nil
}

// compare compares all records with the feed, and sets the position from which changes are to be
// read afterwards.
func (s *run) compare(ctx context.Context, at *Position) error {
	index := s.bridge.core.Index
	if err := s.SettleAll(ctx); err != nil {
		return err
	}
	head, err := s.bridge.head(ctx)
	if err != nil {
		return err
	}
	if err := index.Mark(); err != nil {
		return err
	}
	if err := s.compareListed(ctx, nil); err != nil {
		return err
	}
	if err := s.SettleAll(ctx); err != nil {
		return err
	}
	if err := s.deleteUnlisted(ctx); err != nil {
		return err
	}
	if err := s.SettleAll(ctx); err != nil {
		return err
	}
	live, err := index.Count()
	if err != nil {
		return err
	}
	after, err := s.bridge.head(ctx)
	if err != nil {
		return err
	}
	if at.Uncounted = after.Stamp != head.Stamp; !at.Uncounted {
		at.Missing = after.Total - live
	}
	if head.Stamp < at.Stamp || at.Since > head.Stamp {
		at.Since = min(at.Since, head.Stamp)
	}
	at.Stamp, at.ID, at.Tail, at.Reconciled = head.Stamp, "", 0, time.Now().Unix()
	return nil
}

// publishLookalikes publishes the records that look like tombstones and that the feed does not have. A list
// without a bound on the stamps has no tombstones.
func (s *run) publishLookalikes(ctx context.Context) error {
	if err := s.bridge.core.Index.Mark(); err != nil {
		return err
	}
	return s.compareListed(ctx, url.Values{"deleted": {"true"}})
}

// compareListed publishes the records that match a filter and that the feed does not have, and marks all
// that match.
func (s *run) compareListed(ctx context.Context, filter url.Values) error {
	var rows []kinto.Row
	flush := func() error {
		some := rows
		rows = rows[:0]
		return s.compareRows(ctx, some)
	}
	q := kinto.Query{Sort: kinto.OldestFirst, Fields: []string{"id"}, Filter: filter, Limit: maxLimit}
	retry := s.bridge.core.NewRetry()
	for {
		s.count(func(p *bridge.Progress) { p.Requests++ })
		page, err := s.bridge.config.Source.List(ctx, q, func(row kinto.Row) error {
			row.Data = nil
			if rows = append(rows, row); len(rows) < pieceRows {
				return nil
			}
			return flush()
		})
		if sent := flush(); sent != nil {
			return sent
		}
		switch {
		case err != nil:
			if err = retry.Again(ctx, err); err != nil {
				return err
			}
			continue
		case page.Next == "":
			return nil
		}
		retry.Reset()
		q.Token = page.Next
	}
}

// compareRows marks the ids of rows, and publishes those that the feed does not have.
func (s *run) compareRows(ctx context.Context, rows []kinto.Row) error {
	index := s.bridge.core.Index
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	if err := index.MarkIDs(ids...); err != nil {
		return err
	}
	held, err := index.Look(ids...)
	if err != nil {
		return err
	}
	var wanted []string
	for i, row := range rows {
		if !held[i].Live || held[i].Stamp != row.Stamp {
			wanted = append(wanted, row.ID)
		}
	}
	// A record that is gone by now has a tombstone, or is found the next time.
	return s.confirmGone(ctx, wanted, func(string) error { return nil })
}

// deleteUnlisted deletes the records that are not marked and do not exist.
func (s *run) deleteUnlisted(ctx context.Context) error {
	index := s.bridge.core.Index
	live, err := index.Count()
	if err != nil {
		return err
	}
	gone, most := int64(0), max(minGone, live*int64(s.bridge.config.MaxGone)/100)
	for ids, err := range index.Unmarked() {
		if err != nil {
			return err
		}
		gone += int64(len(ids))
	}
	if gone > most && s.bridge.config.MaxGone < 100 {
		return fmt.Errorf("%w: %d of %d are not in the collection: check its URL and your rights, or raise --max-gone", ErrManyGone, gone, live)
	}
	for ids, err := range index.Unmarked() {
		if err != nil {
			return err
		}
		var missing []string
		if err := s.confirmGone(ctx, ids, func(id string) error {
			missing = append(missing, id)
			return nil
		}); err != nil {
			return err
		}
		// Without the right to read the collection, records are missing from lists.
		if err := s.bridge.config.Source.CheckRead(ctx); err != nil {
			return err
		}
		for _, id := range missing {
			if err := s.removeGone(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}
