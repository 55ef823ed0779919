package against

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/kinto"
	kintosink "github.com/feedctl/feedctl/sink/kinto"
)

// Kinto is a collection of a Kinto server as a [Source].
type Kinto struct{ Collection *kinto.Collection }

// kintoPage is how many records are requested at once. Servers may return fewer.
const kintoPage = 10_000

// State returns the stamp of the collection. It fails for users who may not read the collection,
// since the server would list only the records that are shared with them.
func (k Kinto) State(ctx context.Context) (string, error) {
	if err := k.Collection.CheckRead(ctx); err != nil {
		return "", err
	}
	head, err := k.Collection.Head(ctx, kinto.Query{})
	if err == nil && head.Stamp == 0 {
		err = fmt.Errorf("HEAD %s/records: the server sent no ETag", k.Collection.URL())
	}
	return strconv.FormatInt(head.Stamp, 10), err
}

// IsTarget reports whether a sink has a position for the collection.
func (k Kinto) IsTarget(ctx context.Context) (bool, error) {
	return kintosink.IsTarget(ctx, k.Collection)
}

// List lists the live records. All pages of the list show the same state of the collection.
func (k Kinto) List(ctx context.Context, state string, bodies bool, add func(Item) error) error {
	stamp, err := strconv.ParseInt(state, 10, 64)
	if err != nil {
		return err
	}
	q := kinto.Query{Sort: kinto.OldestFirst, Limit: kintoPage, IfMatch: stamp}
	if !bodies {
		q.Fields = kintosink.FieldsOfCopies()
	}
	for {
		page, err := k.page(ctx, q, bodies, add)
		if errors.Is(err, kinto.ErrPreconditionFailed) {
			return fmt.Errorf("%w: %w", ErrChanged, err)
		}
		if err != nil || page.Next == "" {
			return err
		}
		q.Token = page.Next
	}
}

// page lists one page. If a page arrives incomplete, it is requested again, and its rows are added
// again.
func (k Kinto) page(ctx context.Context, q kinto.Query, bodies bool, add func(Item) error) (page kinto.Page, err error) {
	for attempt := 1; ; attempt++ {
		page, err = k.Collection.List(ctx, q, func(r kinto.Row) error {
			i := Item{Key: r.ID, Version: kinto.ETag(r.Stamp), Copy: kintosink.CopyOf(r.ID, r.Data)}
			if bodies {
				i.Body = r.Data
			}
			return add(i)
		})
		if err == nil || !kinto.Retryable(err) || attempt == listAttempts {
			return page, err
		}
		if err := pause(ctx, attempt); err != nil {
			return page, err
		}
	}
}

// Covers reports whether a key belongs to a record, not to an attachment.
func (k Kinto) Covers(key string) bool { return !strings.HasSuffix(key, "/attachment") }
