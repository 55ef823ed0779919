package consumer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/snapshot"
)

// maxIndex is the largest snapshot index that is accepted, in bytes.
const maxIndex = 32 << 20

// An index is a snapshot index and the URL at which it was found.
type index struct {
	*snapshot.Index
	// position is the URL of this snapshot with its id as fragment, since the
	// URL alone may later lead to another snapshot.
	position string
}

// index requests a snapshot index. If the URL has a fragment, it is the id that the snapshot must
// have. If latest is not zero, the source is asked for the newest snapshot whose position is not
// later than latest. Sources need not support this.
func (s *session) index(raw string, latest time.Time) (*index, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("parse URL: malformed URL")
	}
	id := u.Fragment
	u.Fragment, u.RawFragment = "", ""
	retry := s.newRetry()
	for {
		x, err := s.tryIndex(u.String(), id, latest)
		if err == nil {
			return x, nil
		}
		if err := retry.pause(s.ctx, err); err != nil {
			return nil, err
		}
	}
}

func (s *session) tryIndex(target, id string, latest time.Time) (*index, error) {
	resp, err := s.send(Request{URL: target, Kind: SnapshotIndex, Latest: latest})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.Answer != Whole {
		return nil, indexError(resp.URL, errNoIndex)
	}
	x, err := parseIndex(resp.Response)
	if err != nil {
		return nil, err
	}
	if id != "" && x.ID != id {
		return nil, indexError(resp.URL, fmt.Errorf("%w: its id is %q, and was %q before", ErrSnapshotChanged, x.ID, id))
	}
	at, err := url.Parse(cmp.Or(resp.Own, resp.URL))
	if err != nil {
		return nil, indexError(resp.URL, err)
	}
	at.Fragment = x.ID
	return &index{Index: x, position: at.String()}, nil
}

// parseIndex returns the index in a response.
func parseIndex(r *Response) (*snapshot.Index, error) {
	if r.Index != nil {
		return r.Index, nil
	}
	body := &io.LimitedReader{R: r.Body, N: maxIndex + 1}
	x, err := snapshot.Parse(body)
	switch {
	case body.N == 0:
		return nil, indexError(r.URL, fmt.Errorf("%w of %d bytes", ErrTooLarge, maxIndex))
	case errors.Is(err, snapshot.ErrInvalid):
		return nil, indexError(r.URL, err)
	}
	return x, err
}

var errNoIndex = errors.New("response has no index")

// indexError returns the error for an invalid index.
func indexError(at string, err error) error {
	return fmt.Errorf("read snapshot index %s: %w", shown(at), err)
}

// handOff returns the position in the feed at url from which to continue after the snapshot: the
// position in the index or, if it has none, the creation time of the snapshot. The page of the
// position is used only if the index has the same URL for the feed.
func (x *index) handOff(url string) feed.Position {
	f := x.Feed
	if f == nil {
		return feed.Position{LastModified: x.CreatedAt}
	}
	at := feed.Position{LastModified: feed.Truncate(f.LastModified), ContentID: f.ContentID}
	if f.URL == url {
		at.Page = f.Page
	}
	return at
}

// snapshotPages yields the pages of a snapshot in order, and requests up to
// Concurrency of them concurrently.
func (s *session) snapshotPages(x *index, from feed.SnapshotPosition) iter.Seq2[*Page, error] {
	return func(yield func(*Page, error) bool) {
		var window []*fetch
		defer func() {
			if len(window) > 0 {
				s.cancel() // nothing else is needed
			}
			for _, f := range window {
				f.abandon()
			}
		}()
		ahead := from.Page
		for number := from.Page; number < len(x.Pages); number++ {
			for ; ahead < len(x.Pages) && ahead < number+s.config.Concurrency; ahead++ {
				window = append(window, s.fetch(s.snapshotReading(x, ahead)))
			}
			if err := s.snapshotPage(window[0], number, from, yield); err != nil {
				if !errors.Is(err, errStopped) {
					yield(nil, err)
				}
				return
			}
			window = window[1:]
		}
	}
}

func (s *session) snapshotReading(x *index, number int) *reading {
	r := s.newReading(x.Pages[number])
	r.index, r.number, r.created = x.position, number, x.CreatedAt
	return r
}

// warnUndated logs once that entities of a snapshot lack the Last-Modified required by the
// specification.
func (s *session) warnUndated(index string) {
	if s.undated {
		return
	}
	s.undated = true
	s.config.Logger.WarnContext(s.ctx, "entities of the snapshot have no Last-Modified, using its createdAt", "index", index)
}

// errStopped means that the caller has ended the iteration.
var errStopped = errors.New("iteration was stopped")

// snapshotPage yields one page.
func (s *session) snapshotPage(f *fetch, number int, from feed.SnapshotPosition, yield func(*Page, error) bool) error {
	r, err := f.wait()
	if err != nil {
		return err
	}
	skip := 0
	if number == from.Page {
		skip = from.Entities
	}
	var broken error
	read := func(fn func(*Entity) bool) error {
		if broken == nil {
			broken = r.each(func(e *Entity) bool { return e.Part < skip || fn(e) })
		}
		return broken
	}
	r.page.entities = entities(read)
	r.page.before = func() feed.Position {
		return feed.Position{Snapshot: &feed.SnapshotPosition{Index: r.index, Page: number}, Damaged: r.url}
	}
	if !yield(r.page, nil) {
		return errStopped
	}
	return read(func(*Entity) bool { return true })
}
