package kinto

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/kinto"
)

// positionsName is the name of the collection with the positions of all consumers of a bucket. It is separate
// so that the readers of the data do not see the positions.
const positionsName = "feedctl-positions"

var (
	// ErrTaken means that another consumer has opened the same sink.
	ErrTaken = errors.New("another consumer has taken the sink over: stop one of the two, or give them different names")
	// ErrLost means that the collection or its position was deleted, replaced or restored while the
	// sink was open.
	ErrLost = errors.New("the position is missing, or older than before: the bucket was deleted, replaced or restored; start the consumer again to write what is missing")
)

// A state is a record of the collection [positionsName].
type state struct {
	stamp    int64 // of the record; 0 if there is none
	refusals int   // how many of target.refused the record has

	Collection string `json:"collection"`
	Name       string `json:"name"`
	// Owner is a random name of the sink that owns the position, and Epoch the number of times that a
	// sink has taken it over.
	Owner string `json:"owner"`
	Epoch int64  `json:"epoch"`
	// Writes is the number of times that the record was written.
	Writes int64 `json:"writes"`
	// Position is the position of the collection.
	Position feed.Position `json:"position"`
	// Step is the random name of the last chunk, and Last is what it writes. If Done is false, the chunk has
	// been announced and leads to Next; otherwise, it has been written after the position Before. A server
	// stores the position even if it refuses records of the same request.
	Step   string        `json:"step,omitempty"`
	Done   bool          `json:"done,omitempty"`
	Last   []written     `json:"last,omitempty"`
	Next   feed.Position `json:"next"`
	Before feed.Position `json:"before"`
	// Doubts lists the ids of records that a lost request may still create.
	Doubts []string `json:"doubts,omitempty"`
	// Failures is the number of records that were refused, and Refused lists the last of them.
	Failures int64              `json:"failures,omitempty"`
	Refused  []consumer.Refusal `json:"refused,omitempty"`
}

// A written is a record as a chunk leaves it.
type written struct {
	ID        string `json:"id"`
	ContentID string `json:"contentId,omitempty"`
	// Digest identifies a record that has no contentId. If the record is larger than maxDigest, or the state
	// was written by an earlier version, Digest is empty, and the record cannot be checked.
	Digest  []byte `json:"digest,omitempty"`
	Deleted bool   `json:"deleted,omitempty"`
}

func idsOf(all []written) []string {
	ids := make([]string, len(all))
	for i, w := range all {
		ids[i] = w.ID
	}
	return ids
}

// stateID returns the id of the position.
func (t *target) stateID() string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(t.to.Name()+"\n"+t.name)))[:32]
}

func (t *target) read(ctx context.Context) (state, error) {
	row, err := t.positions.Record(ctx, t.stateID())
	if err != nil {
		return state{}, fmt.Errorf("read position: %w", err)
	}
	return decodeState(row.Data, row.Stamp)
}

func decodeState(data []byte, stamp int64) (state, error) {
	s := state{stamp: stamp}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read position: %w: %w", kinto.ErrMalformed, err)
	}
	return s, nil
}

// errOlder is an [ErrLost]: the stored state is older than that of the sink. A server compares a stamp
// and writes in two steps, so the request of an earlier owner, which was made just before this sink
// took over, may overwrite the state of this sink; or the server was restored.
var errOlder = fmt.Errorf("%w", ErrLost)

// load reads the state and checks that this sink owns it.
func (t *target) load(ctx context.Context) error {
	stored, err := t.read(ctx)
	switch {
	case errors.Is(err, kinto.ErrNotFound):
		return ErrLost
	case err != nil:
		return err
	case stored.Owner == t.state.Owner && stored.Writes >= t.state.Writes:
		t.state = stored
		return nil
	case stored.Epoch > t.state.Epoch:
		return ErrTaken
	case !stored.Done && same(stored.Position, t.state.Position):
		// The earlier owner has announced a chunk, and written none of it.
		t.doubt(idsOf(stored.Last))
		t.doubt(stored.Doubts)
		t.state.stamp = stored.stamp
		return t.save(ctx, func(*state) {})
	}
	return errOlder
}

func same(a, b feed.Position) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}

// maxTakes is how many times a sink takes the position over again because an earlier owner has
// overwritten it.
const maxTakes = 5

// own makes the sink the owner of the position the first time, and later checks that it still is.
func (t *target) own(ctx context.Context) (err error) {
	if !t.owned {
		err = t.take(ctx)
	} else if err = t.load(ctx); err == nil {
		err = t.verify(ctx)
	}
	for n := 0; n < maxTakes && errors.Is(err, errOlder); n++ {
		t.log.WarnContext(ctx, "position is older than before, continuing from there", "collection", t.to.URL())
		err = t.take(ctx)
	}
	return err
}

// take makes the sink the owner of the position.
func (t *target) take(ctx context.Context) error {
	root, err := t.server.Root(ctx)
	if err != nil {
		return err
	}
	if root.Settings.ReadOnly {
		return errors.New("the server is read-only")
	}
	t.most = maxChunk
	if n := root.Settings.BatchMaxRequests; n > 0 {
		t.most = max(1, min(t.most, n-1))
	}
	created, err := t.create(ctx, t.to)
	if err != nil {
		return err
	}
	if _, err := t.create(ctx, t.positions); err != nil {
		return err
	}
	stored, err := t.read(ctx)
	if err != nil && !errors.Is(err, kinto.ErrNotFound) {
		return err
	}
	if created && stored.Position != (feed.Position{}) {
		t.log.WarnContext(ctx, "position is from an earlier collection of this name, starting from the beginning", "collection", t.to.URL())
		stored = state{stamp: stored.stamp, Epoch: stored.Epoch, Writes: stored.Writes}
	}
	stored.Collection, stored.Name, stored.Owner = t.to.Name(), t.name, rand.Text()
	stored.Epoch, stored.Writes = max(stored.Epoch, t.state.Epoch)+1, max(stored.Writes, t.state.Writes)
	t.state = stored
	t.doubt(stored.Doubts)
	if err := t.save(ctx, func(*state) {}); err != nil {
		return err
	}
	t.owned = true
	return t.verify(ctx)
}

// create creates a collection if it does not exist.
func (t *target) create(ctx context.Context, c *kinto.Collection) (created bool, err error) {
	_, err = c.Metadata(ctx)
	if !errors.Is(err, kinto.ErrNotFound) {
		return false, err
	}
	_, err = t.server.JSON(ctx, kinto.Request{
		Method: http.MethodPut, Path: c.Path(""), Body: []byte(`{}`),
		Header: http.Header{"If-None-Match": {"*"}},
	}, nil)
	if errors.Is(err, kinto.ErrPreconditionFailed) { // by another client
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("create collection %s, whose bucket must exist: %w", c.Name(), err)
	}
	return true, nil
}

// verify compares what the last chunk writes with the collection. If the chunk was announced and is
// there, its position is there, too: the server has carried out a request of an earlier owner after that
// owner was replaced or killed. That may take some time. If the chunk was written and is not there,
// because records were refused or changed by others when the consumer ended, verify goes back to the
// position before it.
func (t *target) verify(ctx context.Context) error {
	if len(t.state.Last) == 0 {
		return nil
	}
	for n := 1; ; n++ {
		missing, absent, err := t.missing(ctx)
		switch {
		case err != nil:
			return err
		case missing == "" && t.state.Done:
			return nil
		case missing == "":
			return t.save(ctx, func(s *state) { s.Position, s.Done = s.Next, true })
		case t.state.Done:
			t.log.WarnContext(ctx, "collection lacks what was written last, writing it again", "collection", t.to.URL(), "id", missing)
			return t.save(ctx, func(s *state) { s.Position, s.Step, s.Last = s.Before, "", nil })
		case n > lateTries || t.late == 0:
			t.doubt(absent)
			return t.save(ctx, func(s *state) { s.Step, s.Last = "", nil })
		}
		if err := backoff.Sleep(ctx, t.late/lateTries); err != nil {
			return err
		}
	}
}

// lateTries is how many times the collection is read within retryBudget.late.
const lateTries = 10

// missing returns the id of a record that is not as the last chunk writes it, or an empty string, and the
// ids of the records that the chunk writes but that do not exist.
func (t *target) missing(ctx context.Context) (id string, absent []string, err error) {
	whole := slices.ContainsFunc(t.state.Last, func(w written) bool { return w.Digest != nil })
	found, err := t.rows(ctx, idsOf(t.state.Last), whole)
	if err != nil {
		return "", nil, err
	}
	for _, w := range t.state.Last {
		unknown := w.ContentID == "" && w.Digest == nil && !w.Deleted
		if !found[w.ID].is(w) || unknown && !t.state.Done {
			id = w.ID
		}
		if !w.Deleted && found[w.ID].stamp == 0 {
			absent = append(absent, w.ID)
		}
	}
	return id, absent, nil
}

// is reports whether a record is as w describes it, as far as this can be known.
func (s stored) is(w written) bool {
	switch {
	case w.Deleted:
		return s.stamp == 0
	case w.Digest != nil:
		return bytes.Equal(s.digest, w.Digest)
	case w.ContentID == "":
		return s.stamp != 0
	}
	return s.contentID == w.ContentID
}

// next returns the state after a change.
func (t *target) next(change func(*state)) state {
	s := t.state
	change(&s)
	s.add(t.refused)
	s.Doubts = t.doubtful()
	s.Writes++
	return s
}

// set records that a state is stored with a stamp.
func (t *target) set(s state, stamp int64) {
	t.refused = t.refused[s.refusals:]
	s.stamp, s.refusals = stamp, 0
	t.state = s
}

// save changes the state.
func (t *target) save(ctx context.Context, change func(*state)) error {
	s := t.next(change)
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	row, err := t.positions.Put(ctx, t.stateID(), data, s.condition())
	switch {
	case errors.Is(err, kinto.ErrPreconditionFailed):
		// Written by another consumer, or by an earlier attempt of this request.
		stored, failed := t.read(ctx)
		if failed != nil {
			return errors.Join(fmt.Errorf("write position: %w", err), failed)
		}
		switch {
		case stored.Owner == s.Owner && stored.Writes == s.Writes:
			t.set(s, stored.stamp)
		case stored.Epoch < s.Epoch:
			return errOlder
		default:
			return ErrTaken
		}
	case err != nil:
		return fmt.Errorf("write position: %w", err)
	default:
		t.set(s, row.Stamp)
	}
	return nil
}

// condition returns the condition for a write of the state.
func (s state) condition() kinto.Condition {
	return kinto.Condition{IfMatch: s.stamp, Absent: s.stamp == 0}
}
