package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/feed"
)

// readBetween reads the entities of the feed after the position of the digest, up to the position of
// the sink, and records what the sink must have for their keys. It returns the number of these keys.
func (r *run) readBetween(ctx context.Context, from, to feed.Position) (int64, error) {
	switch {
	case to.IsZero(), to.Snapshot != nil, to.Tail != nil, to.ContentID == "":
		return 0, ErrFilling
	case to.ContentID == from.ContentID:
		return 0, nil
	}
	var sum digest.Summer
	for e, err := range r.Client.Entities(ctx, r.URL, consumer.After(from)) {
		if err != nil {
			return 0, fmt.Errorf("read the entities after the digest: %w", err)
		}
		if e.LastModified.After(to.LastModified) {
			break
		}
		if err := r.noteLater(&sum, e); err != nil {
			return 0, fmt.Errorf("entity %q of page %s: %w", e.ContentID, e.Page, err)
		}
		if e.ContentID == to.ContentID {
			return r.scratch.count("later")
		}
	}
	if feed.Truncate(to.LastModified).After(feed.Truncate(from.LastModified)) {
		return 0, gone(to)
	}
	return 0, fmt.Errorf("%w: its position, %s of %s, does not come after that of the digest, %s of %s", ErrBehind,
		to.ContentID, feed.FormatTime(to.LastModified), from.ContentID, feed.FormatTime(from.LastModified))
}

// gone returns the error for a position that the feed does not have.
func gone(p feed.Position) error {
	return fmt.Errorf("%w: %s of %s", ErrGone, p.ContentID, feed.FormatTime(p.LastModified))
}

// noteLater records what the sink must have for the key of an entity.
func (r *run) noteLater(sum *digest.Summer, e *consumer.Entity) error {
	key, err := r.keyOf(e)
	if err != nil {
		return err
	}
	w := want{key: key, id: e.ContentID, page: e.Page, offset: e.Offset}
	switch e.Operation {
	case feed.Delete:
		w.state = deleted
	case feed.Patch:
		w.state = patched
	default:
		sum.Begin(key, e.ContentType)
		if e.Stream != nil {
			_, err = io.Copy(sum, e.Stream)
		} else {
			_, err = sum.Write(e.Body)
		}
		w.sum = sum.Sum()
	}
	if err != nil {
		return err
	}
	return r.scratch.setBetween(w)
}

var errNoKey = errors.New("it has no key: name the pointer to the key in the body, as for the consumer")

func (r *run) keyOf(e *consumer.Entity) (string, error) {
	switch {
	case r.key == nil, e.Stream == nil && len(e.Body) == 0 && e.ContentLocation != "":
		if key := e.Key(); key != "" {
			return key, nil
		}
		return "", errNoKey
	case e.Stream != nil:
		return "", fmt.Errorf("its body is too large to take the key from it: %w", consumer.ErrTooLarge)
	}
	return r.key.String(e.Body)
}
