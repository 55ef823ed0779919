package kinto

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/kinto"
)

// Commit writes the batch chunk by chunk. Each chunk advances the position, unless [target.Expect] was
// called.
func (t *target) Commit(ctx context.Context, at feed.Position) error {
	if t.expected != nil {
		return errors.Join(t.writeExpected(ctx), t.forget())
	}
	if len(t.chunks) == 0 {
		t.addChunk()
	}
	for i, s := range t.chunks {
		position := at
		if i < len(t.chunks)-1 {
			position = s.through
			position.Feed, position.Committed = at.Feed, at.Committed
			if position.ContentID == "" || at.Snapshot != nil { // if the chunk's entities are then applied again, they are PUTs
				position = t.state.Position
			}
		}
		if err := t.write(ctx, s, position); err != nil {
			return err
		}
	}
	return t.forget()
}

// write writes a chunk.
func (t *target) write(ctx context.Context, s *chunk, position feed.Position) error {
	changes := s.last()
	if err := t.await(ctx, changes); err != nil {
		return err
	}
	if err := t.send(ctx, request{step: s.name, changes: changes, to: position}); err != nil {
		return err
	}
	if len(t.refused) == 0 {
		return nil
	}
	return t.advance(ctx, t.state.Position) // together with the last refusals
}

// advance stores a position alone.
func (t *target) advance(ctx context.Context, position feed.Position) error {
	return t.retry(ctx, func(ctx context.Context) error {
		return t.save(ctx, func(s *state) { s.Position = position })
	})
}

// A request is a set of changes that are written at once.
type request struct {
	step    string
	changes []*change
	to      feed.Position // after it
	// failed is 0, or 1 + target.changed at the time when the server failed on the request. If more changes
	// have been made since, a record of the request is the cause.
	failed int64
}

// Limits of tries: how many times a record is written if others keep changing it, and after how many
// failures of the server one record of several is suspected.
const (
	maxConflicts = 5
	suspicious   = 3
)

// maxAnnouncement is how long an announcement may take. If it takes longer, it is made again, once.
const maxAnnouncement = 5 * time.Second

// send sends a request until all of it is stored or refused. The records show the outcome of an
// earlier try.
func (t *target) send(ctx context.Context, r request) error {
	if len(r.changes) == 0 {
		return t.advance(ctx, r.to)
	}
	conflicts, overtaken, failures := 0, 0, 0
	patience := t.patience(r)
	for n := 1; ; {
		left, err := t.try(ctx, r, n > 1 || conflicts+overtaken > 0)
		switch {
		case errors.Is(err, errOvertaken) && overtaken < maxConflicts:
			overtaken++
			continue
		case err == nil && len(left) == 0:
			return nil
		case err == nil:
			r.changes = left
			if conflicts++; conflicts == maxConflicts {
				for _, c := range left {
					t.refuse(c, errBusy)
				}
				return nil
			}
			continue
		case ofRecords(err) && isMalformed(err):
			return t.divide(ctx, r, err)
		case ofRecords(err) && isServerFault(err):
			if r.failed == 0 {
				r.failed = 1 + t.changed
			}
			if failures++; failures < patience {
				break
			}
			if len(r.changes) == 1 && t.changed < r.failed {
				return err // the server may fail on all records
			}
			return t.divide(ctx, r, fmt.Errorf("%w: %w", errRecord, err))
		}
		unread := errors.Is(err, kinto.ErrMalformed) // such as a record that the server returns in too many bytes
		if !unread && !kinto.Retryable(err) || n >= t.tries || t.pause(ctx, n, err) != nil {
			return err
		}
		n++
	}
}

// patience returns the number of failures of the server after which the records of a request are suspected.
func (t *target) patience(r request) int {
	switch {
	case t.changed < r.failed: // they are already suspected, and only a success will show which of them is the cause
		return 1
	case len(r.changes) > 1:
		return min(suspicious, t.tries)
	}
	return t.tries
}

// divide sends the halves of a request that the server does not accept as a whole; if the request has a
// single record, it counts as refused. The position advances with the last half. If the server fails on all
// of the first half, that half is sent again after the second: only a success of the second half shows that
// records are the cause.
func (t *target) divide(ctx context.Context, r request, err error) error {
	if len(r.changes) == 1 {
		t.refuse(r.changes[0], err)
		return t.advance(ctx, r.to)
	}
	half := len(r.changes) / 2
	first, last := r, r
	first.changes, last.changes = r.changes[:half], r.changes[half:]
	first.to = t.state.Before
	err = t.send(ctx, first)
	if ofRecords(err) && isServerFault(err) {
		first.changes, last.changes = last.changes, first.changes
		last.failed = 1 + t.changed
		err = t.send(ctx, first)
	}
	if err != nil {
		return err
	}
	return t.send(ctx, last)
}

// try sends a request once. It returns the changes that have not been made because others changed
// the records in the meantime. After an error, none or all of the changes may have been made.
func (t *target) try(ctx context.Context, r request, again bool) (left []*change, err error) {
	if again {
		if err := t.load(ctx); err != nil {
			return nil, err
		}
	}
	begun := time.Now()
	found, err := t.announce(ctx, r)
	if err == nil && time.Since(begun) > maxAnnouncement { // the process may have been stopped, and replaced by another
		found, err = t.announce(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	var todo []*change
	var created []string
	var requests []kinto.BatchRequest
	for _, c := range r.changes {
		is := found[c.id]
		if c.deleted && is.stamp == 0 || again && c.contentID != "" && !c.deleted && is.contentID == c.contentID {
			continue
		}
		part, err := t.part(c, is.stamp)
		if err != nil {
			return nil, err
		}
		todo, requests = append(todo, c), append(requests, part)
		if is.stamp == 0 {
			created = append(created, c.id)
		}
	}
	next := t.next(func(s *state) { s.Position, s.Done = r.to, true })
	write, err := t.writeOf(next)
	if err != nil {
		return nil, err
	}
	answers, err := t.server.Batch(ctx, append(requests, write))
	if kinto.Retryable(err) { // it may be carried out later
		t.doubt(created)
	}
	switch {
	case err != nil && len(todo) > 0:
		return nil, &recordsError{err}
	case err != nil:
		return nil, err
	}
	for i, a := range answers { // a conflict undoes what came before it, although that is answered with 201
		switch {
		case kinto.Retryable(a.Err) && i < len(todo):
			return nil, &recordsError{a.Err}
		case kinto.Retryable(a.Err):
			return nil, fmt.Errorf("write position: %w", a.Err)
		}
	}
	return t.settle(ctx, todo, answers, next)
}

// writeOf returns the request that writes a state.
func (t *target) writeOf(s state) (kinto.BatchRequest, error) {
	data, err := json.Marshal(map[string]state{"data": s})
	return kinto.BatchRequest{Method: http.MethodPut, Path: t.positions.Path(t.stateID()), Body: data, Header: header(t.state.stamp)}, err
}

// all returns changes as a state describes them.
func (t *target) all(changes []*change) ([]written, error) {
	all := make([]written, len(changes))
	for i, c := range changes {
		all[i] = written{ID: c.id, ContentID: c.contentID, Deleted: c.deleted}
		if c.deleted || c.contentID != "" && c.form != asIs {
			continue
		}
		record, err := t.record(c)
		if err != nil {
			return nil, err
		}
		if all[i].ContentID = ""; len(record) <= maxDigest {
			all[i].Digest = digestOf(record)
		}
	}
	return all, nil
}

// part returns the request for a change to a record that has the given stamp, or that does not exist if stamp
// is 0.
func (t *target) part(c *change, stamp int64) (kinto.BatchRequest, error) {
	part := kinto.BatchRequest{Method: http.MethodDelete, Path: t.to.Path(c.id), Header: header(stamp)}
	if c.deleted {
		return part, nil
	}
	record, err := t.record(c)
	part.Method = http.MethodPut
	part.Body = append(append([]byte(`{"data":`), record...), '}')
	return part, err
}

// header returns the condition that a record has the given stamp, or does not exist if stamp is 0.
func header(stamp int64) map[string]string {
	if stamp == 0 {
		return map[string]string{"If-None-Match": "*"}
	}
	return map[string]string{"If-Match": kinto.ETag(stamp)}
}

// settle reads the answers to changes and, as the last one, the answer to the write of the state.
func (t *target) settle(ctx context.Context, todo []*change, answers []kinto.BatchResponse, next state) (left []*change, err error) {
	if err := t.written(ctx, answers[len(answers)-1], next); err != nil {
		return nil, err
	}
	for i, c := range todo {
		failure := answers[i].Err
		switch {
		case failure == nil:
			t.changed++
		case c.deleted && isMissing(failure):
		case errors.Is(failure, kinto.ErrPreconditionFailed):
			left = append(left, c)
		case isMalformed(failure):
			t.refuse(c, failure)
		default:
			// The error concerns all records, and the position must not be ahead of them. If the
			// undo fails, the next consumer notices that records are missing.
			undo := t.save(ctx, func(s *state) { s.Position, s.Step, s.Last = s.Before, "", nil })
			return nil, errors.Join(fmt.Errorf("write record %q: %w", c.id, failure), undo)
		}
	}
	return left, nil
}

// errOvertaken means that the state has been written in the meantime, but still belongs to this sink.
var errOvertaken = fmt.Errorf("%w", ErrLost)

// written reads the answer to the write of a state.
func (t *target) written(ctx context.Context, a kinto.BatchResponse, next state) error {
	switch {
	case errors.Is(a.Err, kinto.ErrPreconditionFailed):
		if err := t.load(ctx); err != nil {
			return err
		}
		return errOvertaken
	case errors.Is(a.Err, kinto.ErrNotFound):
		return fmt.Errorf("%w: %w", ErrLost, a.Err)
	case a.Err != nil:
		return fmt.Errorf("write position: %w", a.Err)
	}
	var stored struct {
		Data struct {
			Stamp int64 `json:"last_modified"`
		} `json:"data"`
	}
	if err := json.Unmarshal(a.Body, &stored); err != nil || stored.Data.Stamp == 0 {
		return fmt.Errorf("write position: %w: no last_modified", kinto.ErrMalformed)
	}
	t.set(next, stored.Data.Stamp)
	return nil
}

// A stored describes a record on the server, as far as writes need it.
type stored struct {
	stamp     int64 // 0: there is none
	contentID string
	digest    []byte // nil unless the whole record was read
}

// announce records in the state what a request is going to write, which only the owner of the state can do,
// and then reads the records. If another sink takes over after that, its writes make the writes of this sink
// fail.
//
// The announcement is a separate request, although the request that writes the previous chunk could make it:
// a state that announces a chunk says that the previous chunk is complete. Otherwise the next consumer might
// have to write both chunks again, and apply a PATCH in the first twice if the second has changed its record.
func (t *target) announce(ctx context.Context, r request) (map[string]stored, error) {
	ids := make([]string, len(r.changes))
	for i, c := range r.changes {
		ids[i] = c.id
	}
	last, err := t.all(r.changes)
	if err != nil {
		return nil, err
	}
	next := t.next(func(s *state) {
		if s.Step != r.step {
			s.Before = s.Position
		}
		s.Position = s.Before // an earlier request may have stored the position of the chunk, but not all its changes
		s.Next, s.Step, s.Last, s.Done = r.to, r.step, last, false
	})
	write, err := t.writeOf(next)
	if err != nil {
		return nil, err
	}
	query := url.Values{"in_id": {`"` + strings.Join(ids, `","`) + `"`}, "_fields": {fieldsOfRows}}
	answers, err := t.server.Batch(ctx, []kinto.BatchRequest{
		write,
		{Method: http.MethodGet, Path: t.to.Path("") + "/records?" + query.Encode()},
	})
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		if kinto.Retryable(a.Err) {
			return nil, a.Err
		}
	}
	if err := t.written(ctx, answers[0], next); err != nil {
		return nil, err
	}
	switch list := answers[1]; {
	case errors.Is(list.Err, kinto.ErrNotFound):
		return nil, fmt.Errorf("%w: %w", ErrLost, list.Err)
	case list.Err != nil:
		return nil, fmt.Errorf("look up records: %w", list.Err)
	}
	for name := range answers[1].Header {
		if strings.EqualFold(name, "Next-Page") { // the server's pages are smaller than a chunk
			return t.rows(ctx, ids, false)
		}
	}
	var list struct{ Data []json.RawMessage }
	if err := json.Unmarshal(answers[1].Body, &list); err != nil {
		return nil, fmt.Errorf("look up records: %w: %w", kinto.ErrMalformed, err)
	}
	found := make(map[string]stored, len(ids))
	for _, text := range list.Data {
		r := rowOf(text)
		found[r.ID] = stored{stamp: r.Stamp, contentID: r.Meta.ContentID}
	}
	return found, nil
}

// fieldsOfRows lists the members of a foundRow besides the id and the stamp.
const fieldsOfRows = metaMember + ".contentId"

// A foundRow is a record in a list.
type foundRow struct {
	ID    string `json:"id"`
	Stamp int64  `json:"last_modified"`
	Meta  struct {
		ContentID string `json:"contentId"`
	} `json:"feedctl"`
}

// rowOf decodes a row. A row whose member feedctl is from another client has no Content-ID.
func rowOf(text []byte) (r foundRow) {
	if json.Unmarshal(text, &r) != nil {
		r.Meta.ContentID = ""
	}
	return r
}

// rows reads records page by page, with their digests if they are read whole.
func (t *target) rows(ctx context.Context, ids []string, whole bool) (map[string]stored, error) {
	found := make(map[string]stored, len(ids))
	for len(ids) > 0 {
		n := together(ids)
		if err := t.addRows(ctx, found, ids[:n], whole); err != nil {
			return nil, fmt.Errorf("look up records: %w", err)
		}
		ids = ids[n:]
	}
	return found, nil
}

// maxQuery is how many bytes of ids a URL may have, with their quotes and commas.
const maxQuery = 4 << 10

// together returns how many of the ids are requested together.
func together(ids []string) int {
	const quotes = len("%22%22%2C")
	size := 0
	for n, id := range ids {
		if size += len(id) + quotes; n > 0 && size > maxQuery {
			return n
		}
	}
	return len(ids)
}

// addRows reads records whose ids are in one URL.
func (t *target) addRows(ctx context.Context, found map[string]stored, ids []string, whole bool) error {
	q := kinto.Query{IDs: ids}
	if !whole {
		q.Fields = []string{fieldsOfRows}
	}
	for {
		page, err := t.to.List(ctx, q, func(row kinto.Row) error {
			s := stored{stamp: row.Stamp, contentID: rowOf(row.Data).Meta.ContentID}
			if whole {
				s.digest = digestOf(row.Data)
			}
			found[row.ID] = s
			return nil
		})
		if err != nil || page.Next == "" {
			return err
		}
		q.Token = page.Next
	}
}
