package kinto

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/kinto"
)

// How many records are requested by id at a time, and the bytes of their ids, which are part of the
// URL.
const (
	fetchIDs   = 50
	fetchBytes = 4 << 10
)

// together returns how many of the ids are requested with one request.
func together(ids []string) int {
	size := 0
	for n, id := range ids[:min(len(ids), fetchIDs)] {
		if size += len(id); n > 0 && size > fetchBytes {
			return n
		}
	}
	return min(len(ids), fetchIDs)
}

// publishRows publishes rows of a list, which have different ids. During the first fill, rows that may be
// tombstones of unknown records are dropped: see [run.publishLookalikes].
func (s *run) publishRows(ctx context.Context, rows []kinto.Row, filling bool) error {
	held, err := s.held(rows)
	if err != nil {
		return err
	}
	deleted := map[string]int64{} // rows that may be tombstones
	for i, row := range rows {
		switch {
		case !row.Deleted:
			if err := s.put(ctx, row, held[i]); err != nil {
				return err
			}
		case held[i].Live || held[i].Stamp != row.Stamp:
			deleted[row.ID] = row.Stamp
		default: // it is deleted in the feed, too
			s.count(func(p *bridge.Progress) { p.Dropped++ })
		}
	}
	if filling && !s.partial {
		if err := s.dropUnknown(deleted); err != nil {
			return err
		}
	}
	return s.deleteRows(ctx, deleted)
}

// held returns what the feed has for the ids of rows, but does not look up rows with a stamp higher than
// all stamps in the feed: the feed does not have those versions, and looking them up would slow down the
// first fill.
func (s *run) held(rows []kinto.Row) ([]bridge.Held, error) {
	index := s.bridge.core.Index
	highest := index.Highest()
	var ids []string
	var at []int
	for i, row := range rows {
		if row.Stamp <= highest {
			ids, at = append(ids, row.ID), append(at, i)
		}
	}
	held := make([]bridge.Held, len(rows))
	found, err := index.Look(ids...)
	for i, h := range found {
		held[at[i]] = h
	}
	return held, err
}

// dropUnknown removes ids that the feed never had.
func (s *run) dropUnknown(stamps map[string]int64) error {
	ids := slices.Collect(maps.Keys(stamps))
	held, err := s.bridge.core.Index.Look(ids...)
	for i, h := range held {
		if h == (bridge.Held{}) {
			delete(stamps, ids[i])
			s.count(func(p *bridge.Progress) { p.Dropped++ })
		}
	}
	return err
}

// deleteRows deletes the records for which a list had a tombstone, but not live records that only look
// like tombstones: neither a list nor, with the memory backend, the server's count of records tells the
// two apart.
func (s *run) deleteRows(ctx context.Context, stamps map[string]int64) error {
	return s.confirmGone(ctx, slices.Collect(maps.Keys(stamps)), func(id string) error {
		held, err := s.bridge.core.Index.Look(id)
		if err != nil {
			return err
		}
		if !held[0].Live && (!s.partial || held[0] != bridge.Held{}) { // the feed does not have it
			s.count(func(p *bridge.Progress) { p.Dropped++ })
			return nil
		}
		return s.remove(ctx, id, strconv.FormatInt(stamps[id], 10))
	})
}

// confirmGone requests records by id. It publishes those that exist, if the feed does not have them,
// and calls gone for the others.
func (s *run) confirmGone(ctx context.Context, ids []string, gone func(id string) error) error {
	for len(ids) > 0 {
		some := ids[:together(ids)]
		ids = ids[len(some):]
		missing := make(map[string]bool, len(some))
		for _, id := range some {
			missing[id] = true
		}
		if err := s.fetch(ctx, some, func(row kinto.Row) error {
			delete(missing, row.ID)
			return s.putNow(ctx, row)
		}); err != nil {
			return err
		}
		for _, id := range some {
			if !missing[id] {
				continue
			}
			if err := gone(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetch requests live records by id.
func (s *run) fetch(ctx context.Context, ids []string, row func(kinto.Row) error) error {
	q := kinto.Query{IDs: ids, Sort: kinto.OldestFirst}
	retry := s.bridge.core.NewRetry()
	for {
		s.count(func(p *bridge.Progress) { p.Requests++ })
		var failed error // of row
		page, err := s.bridge.config.Source.List(ctx, q, func(r kinto.Row) error {
			failed = row(r)
			return failed
		})
		switch {
		case failed != nil:
			return failed
		case err != nil:
			if err = retry.Again(ctx, err); err != nil {
				return fmt.Errorf("read %d records by id: %w", len(ids), err)
			}
			continue
		case page.Next == "":
			return nil
		}
		retry.Reset()
		q.Token = page.Next
	}
}

// putNow publishes a record unless the feed has it.
func (s *run) putNow(ctx context.Context, row kinto.Row) error {
	held, err := s.bridge.core.Index.Look(row.ID)
	if err != nil {
		return err
	}
	row.Data = append([]byte(nil), row.Data...)
	return s.put(ctx, row, held[0])
}

// put publishes a record unless the feed has it. The caller must not reuse the record's data.
func (s *run) put(ctx context.Context, row kinto.Row, held bridge.Held) error {
	known := held.Live && held.Stamp == row.Stamp
	s.count(func(p *bridge.Progress) {
		p.Compared++
		if known {
			p.Repeated++
		} else {
			p.Missing++
			p.Read++
		}
	})
	if known {
		return nil
	}
	v := bridge.Version{ID: row.ID, Rev: strconv.FormatInt(row.Stamp, 10)}
	e, err := s.entity(v, row)
	if err == nil {
		e.ContentID = contentID(e.ContentID, v, held)
		err = e.Check(true)
	}
	if err != nil {
		return s.Reject(ctx, bridge.Quarantined{ID: v.ID, Rev: v.Rev, Reason: err.Error()})
	}
	if s.bridge.config.Attachments != Stub {
		if ok, err := s.publishAttachment(ctx, v, e); err != nil || !ok {
			return err
		}
	}
	return s.add(ctx, v, held, e)
}

// contentID returns the Content-ID for a version that is not the newest one in the feed: id, the version's
// own, or a new Content-ID if the feed may have had the version before, because the source went back to an
// older state.
func contentID(id string, v bridge.Version, held bridge.Held) string {
	if bridge.StampOf(v.Rev) > held.Top {
		return id
	}
	return id[:len(id)-1] + ";again=" + bridge.NewID()[:16] + ">"
}

// entity returns the entity of a record. The error is a reason for quarantine.
func (s *run) entity(v bridge.Version, row kinto.Row) (*feed.Entity, error) {
	limit := s.bridge.config.MaxRecord
	switch {
	case limit > 0 && row.Size > limit:
		return nil, fmt.Errorf("%w of %d bytes: it has %d", bridge.ErrTooLarge, limit, row.Size)
	case row.Data == nil:
		return nil, fmt.Errorf("%w of the client: it has %d bytes", bridge.ErrTooLarge, row.Size)
	case !utf8.Valid(row.Data):
		return nil, fmt.Errorf("record %w", bridge.ErrNotUTF8)
	}
	e := v.Entity(feed.Put, "application/json")
	e.Body = row.Data
	return e, nil
}

// remove publishes the deletion of a record that the feed has, and of its attachment.
func (s *run) remove(ctx context.Context, id, rev string) error {
	for _, id := range []string{id, id + attachmentSuffix} {
		held, err := s.bridge.core.Index.Look(id)
		if err != nil {
			return err
		}
		if !held[0].Live && (!s.partial || held[0] != bridge.Held{} || isAttachment(id)) {
			continue
		}
		if err := s.removeOne(ctx, id, rev, held[0]); err != nil {
			return err
		}
	}
	return nil
}

// removeOne publishes a deletion.
func (s *run) removeOne(ctx context.Context, id, rev string, held bridge.Held) error {
	v := bridge.Version{ID: id, Rev: rev}
	e := v.Entity(feed.Delete, "")
	if !isGone(rev) {
		e.ContentID = contentID(e.ContentID, v, held)
	}
	if err := e.Check(true); err != nil {
		return s.Reject(ctx, bridge.Quarantined{ID: id, Rev: rev, Reason: err.Error()})
	}
	return s.add(ctx, v, held, e)
}

// removeGone publishes the deletion of a record that is gone without a tombstone.
func (s *run) removeGone(ctx context.Context, id string) error {
	held, err := s.bridge.core.Index.Look(id)
	if err != nil || !held[0].Live {
		return err
	}
	return s.remove(ctx, id, fmt.Sprintf("%d%s%d", held[0].Stamp, goneMark, time.Now().UnixMilli()))
}

// add publishes an entity and records it in the index.
func (s *run) add(ctx context.Context, v bridge.Version, held bridge.Held, e *feed.Entity) error {
	s.bridge.core.Index.Publishing(v.ID, held, bridge.StampOf(v.Rev), e.Operation == feed.Put)
	return s.Add(ctx, e)
}

func (s *run) count(change func(*bridge.Progress)) { s.bridge.core.Meter.Count(change) }

// sourceFailed reports whether an error is a temporary error of the source.
func sourceFailed(err error) bool { return kinto.Retryable(err) && !errors.Is(err, context.Canceled) }
