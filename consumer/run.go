package consumer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonptr"
)

// A run is the state of one call of [Job.Run].
type run struct {
	Job
	key   *jsonptr.Pointer
	s     *session // of the current attempt
	batch openBatch
	stats Stats
	lag   lag
	// committed is the position that the sink has.
	committed feed.Position
	// rejected counts the entities that the sink had rejected before the run.
	rejected Rejected
	// entered is the value of Stats.Entities when the current attempt began to read the feed itself.
	entered int64
	torn    TimelineError // the last such error after which the run continued
	end     ending
	// replacing is set while a snapshot replaces the data of the sink; begins is set until the first commit of
	// the replacement.
	replacing, begins bool

	// With NewestFirst: the tail, which is nil if it is complete, and the head.
	tail *feed.TailPosition
	head feed.Position
}

// run makes attempts until the feed has been read or an error is final.
func (r *run) run(ctx context.Context) error {
	start, err := r.position(ctx)
	if err != nil {
		return err
	}
	retry := (&session{Client: r.Client}).newRetry()
	for {
		before := r.stats.Entities
		r.entered = math.MaxInt64 // not yet
		err := r.attempt(ctx, start)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if r.stats.Entities > before {
			retry.progress()
		}
		var broken *streamError
		next, passable := r.passGap(start, err)
		switch {
		case passable && (next != start || r.stats.Entities > r.entered): // no endless loop
			r.Logger.WarnContext(ctx, "entities may have been lost", "error", err, "policy", r.OnGap.String())
			r.stats.Gaps++
			start, r.tail = next, nil
		case errors.As(err, &broken), r.waits(err):
			if start, err = r.resume(ctx, &retry, err); err != nil {
				return err
			}
			r.stats.Restarts++
		default:
			return err
		}
	}
}

// waits reports whether err means that the sink is unavailable, so the run has to wait for the sink.
func (r *run) waits(err error) bool {
	return r.Client.config.Retry.Attempts < 0 && errors.Is(err, ErrSinkUnavailable)
}

// resume returns where to continue after a temporary error, once the sink is available.
func (r *run) resume(ctx context.Context, retry *retry, err error) (Start, error) {
	for {
		if err := retry.pause(ctx, err); err != nil {
			return Start{}, err
		}
		start, failed := r.position(ctx)
		if ended := ctx.Err(); ended != nil {
			return Start{}, ended
		}
		if !r.waits(failed) {
			return start, failed
		}
		err = failed
	}
}

// position returns where to start: after the position of the sink or, if it has none, at From.
func (r *run) position(ctx context.Context) (Start, error) {
	at, err := r.Sink.Position(ctx)
	if err != nil {
		return Start{}, fmt.Errorf("read position of sink: %w", err)
	}
	r.tail, r.head, r.committed = nil, feed.Position{}, at
	if at.IsZero() {
		if r.NewestFirst {
			r.tail = &feed.TailPosition{}
		}
		return r.From, nil
	}
	if at.Feed != "" && at.Feed != r.Feed {
		r.Logger.WarnContext(ctx, "the sink's position is from a feed at another URL, searching for its Content-ID in this feed",
			"position", at.Feed, "feed", r.Feed)
		at.Page, at.Prev, at.Damaged = "", "", ""
		r.committed = feed.Position{} // another server's
		if at.Tail != nil {
			at.Tail = copyTail(at.Tail)
			at.Tail.Page, at.Tail.Prev = "", ""
		}
	}
	if at.Tail != nil {
		r.tail, at.Tail = copyTail(at.Tail), nil
		r.head = at
	}
	return After(at), nil
}

// passGap returns where to continue after a gap, if the policy allows it.
func (r *run) passGap(tried Start, err error) (Start, bool) {
	_, inSnapshot := tried.snapshot()
	var torn *TimelineError
	if errors.As(err, &torn) {
		if *torn == r.torn {
			return Start{}, false // the servers and caches have not changed since the last attempt
		}
		r.torn = *torn
	}
	lost := IsGap(err) || inSnapshot && (gone(err) || errors.Is(err, ErrSnapshotChanged))
	var next Start
	var id *ContentIDNotFoundError
	var epoch *EpochError
	switch {
	case !lost || r.OnGap == GapFail:
		return Start{}, false
	case r.OnGap == GapSnapshot:
		next = r.fromSnapshot()
	case errors.As(err, &epoch):
		next = Since(epoch.since())
	case errors.As(err, &id):
		next = Since(id.Position.LastModified)
	case torn != nil && !torn.Position.LastModified.IsZero():
		next = Since(torn.Position.LastModified)
	case inSnapshot && !IsGap(err):
		return Start{}, false // there is no time to replay from
	default:
		next = Beginning()
	}
	return next, true
}

// attempt reads the feed once, from start to its end.
func (r *run) attempt(ctx context.Context, start Start) error {
	s, url, err := r.Client.open(ctx, r.URL)
	if err != nil {
		return err
	}
	defer s.close()
	s.trust(r.From.index)
	s.trust(r.SnapshotURL)
	r.s, r.lag.url, r.end.reached, r.replacing = s, url, false, false
	s.announce(r.committed)
	if r.tail != nil && !r.Until.IsZero() {
		return errFilling
	}
	if r.tail != nil {
		if err := r.backfill(ctx); err != nil {
			return err
		}
		if !r.head.IsZero() { // the feed was not empty
			start = After(r.head)
		}
	}
	if from, ok := start.snapshot(); ok {
		latest, err := r.latest(ctx)
		if err != nil {
			return err
		}
		x, err := s.index(from.Index, latest)
		if err != nil {
			return err
		}
		if err := r.checkStart(ctx, x.handOff(url), from.Index); err != nil {
			return err
		}
		r.lag.snapshot = x
		r.replacing, r.begins = from.Replaces && r.replaces(), start.index != ""
		if start.position.Damaged != "" && from.Page < len(x.Pages) {
			if err := s.check(s.snapshotReading(x, from.Page)); err != nil {
				return err
			}
		}
		if err := r.drain(ctx, s.snapshotPages(x, from), false); err != nil {
			return err
		}
		if r.replacing {
			if err := r.removeOthers(ctx); err != nil {
				return err
			}
		}
		at := x.handOff(url)
		start = After(at)
		if at.IsZero() {
			at.Snapshot = &feed.SnapshotPosition{Index: x.position, Page: len(x.Pages)}
		}
		r.batch.move(at)
		if err := r.commit(ctx); err != nil {
			return err
		}
		r.lag.snapshot = nil
	} else if err := r.checkStart(ctx, start.position, ""); err != nil {
		return err
	} else if at := start.position.Damaged; at != "" {
		if err := s.check(s.newReading(at)); err != nil {
			return err
		}
	}
	if !r.end.reached {
		r.entered = r.stats.Entities
		if err := r.drain(ctx, s.feedPages(url, start), start.latest); err != nil {
			return err
		}
	}
	r.announceEnd(ctx)
	return nil
}

// drain applies all entities of pages and commits them. If markEnd is set, the position at the end of the
// pages is committed even if they have no entities.
func (r *run) drain(ctx context.Context, pages iter.Seq2[*Page, error], markEnd bool) error {
	err := r.pages(ctx, pages, markEnd)
	var unverified *unverifiedError
	isUnverified := errors.As(err, &unverified)
	if r.batch.partial || r.batch.Batch != nil && isUnverified {
		if lost := r.batch.rollback(ctx); lost != nil {
			return errors.Join(err, lost)
		}
	}
	if isUnverified && (errors.Is(err, ErrDamaged) || isPermanent(err)) {
		return errors.Join(err, r.retreat(ctx, r.lag.page.before()))
	}
	if err == nil {
		return r.commit(ctx)
	}
	// The batch contains only complete entities, so it is committed although reading failed.
	if lost := r.commit(ctx); lost != nil {
		return errors.Join(err, lost)
	}
	return err
}

// retreat moves the committed position back to before a page that turned out to be damaged after some of its
// entities had been committed, so that the whole page is read again once it is repaired.
func (r *run) retreat(ctx context.Context, to feed.Position) error {
	at, err := r.Sink.Position(ctx)
	if err != nil {
		return fmt.Errorf("read position of sink: %w", err)
	}
	within := at.Page == r.lag.page.URL
	if to.Snapshot != nil {
		within = at.Snapshot != nil && at.Snapshot.Page == to.Snapshot.Page && at.Snapshot.Entities != to.Snapshot.Entities
	}
	if !within {
		return nil
	}
	r.batch.move(to)
	return r.commit(ctx)
}

func (r *run) pages(ctx context.Context, pages iter.Seq2[*Page, error], markEnd bool) error {
	for p, err := range pages {
		if err != nil {
			return err
		}
		r.lag.page = p
		for e, err := range p.Entities() {
			if err != nil {
				return err
			}
			if r.ends(e) {
				continue // read on to the end of the page, where it is verified
			}
			if err := r.apply(ctx, e); err != nil {
				return err
			}
			r.applied(e)
		}
		if r.end.reached && r.lag.snapshot == nil {
			return nil
		}
		if !p.Newest() || r.lag.snapshot != nil {
			continue
		}
		if markEnd && r.batch.at.IsZero() {
			r.batch.move(p.end())
		}
		if err := r.commit(ctx); err != nil { // it may take a long time until there are more entities
			return err
		}
	}
	return nil
}
