package postgres

import (
	"bytes"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/sink/internal/position"
)

// keyNotes holds the notes of a batch about one key.
type keyNotes struct {
	buried   bool
	released bool       // the patches in the table of notes were released, before held was filled
	held     []heldNote // in ascending order
}

type heldNote struct {
	n     int64
	patch []byte
}

// note returns the notes of the batch about a key. The caller may change them.
func (t *target) note(key string) *keyNotes {
	if t.notes == nil {
		t.notes = make(map[string]*keyNotes)
	}
	k := t.notes[key]
	if k == nil {
		k = new(keyNotes)
		t.notes[key] = k
	}
	return k
}

func (t *target) Bury(_ context.Context, key string) error {
	t.note(key).buried = true
	return nil
}

func (t *target) Hold(_ context.Context, key string, n int64, patch []byte) error {
	k := t.note(key)
	i, _ := slices.BinarySearchFunc(k.held, n, func(h heldNote, n int64) int { return int(h.n - n) })
	k.held = slices.Insert(k.held, i, heldNote{n, bytes.Clone(patch)})
	return nil
}

func (t *target) Release(ctx context.Context, key string, fn func(patch []byte) error) error {
	if fn != nil {
		if err := t.eachHeld(ctx, key, fn); err != nil {
			return err
		}
	}
	k := t.note(key)
	k.released, k.held = true, nil
	return nil
}

// eachHeld calls fn with the held patches of a key, oldest first. A patch of the batch is older
// than those in the table of notes if its number is negative, and newer otherwise.
func (t *target) eachHeld(ctx context.Context, key string, fn func(patch []byte) error) error {
	k := t.note(key)
	newer, _ := slices.BinarySearchFunc(k.held, 0, func(h heldNote, n int64) int { return int(h.n - n) })
	for _, h := range k.held[:newer] {
		if err := fn(h.patch); err != nil {
			return err
		}
	}
	if !k.released {
		if err := t.eachStored(ctx, key, fn); err != nil {
			return err
		}
	}
	for _, h := range k.held[newer:] {
		if err := fn(h.patch); err != nil {
			return err
		}
	}
	return nil
}

// heldAtOnce is the number of patches that are read at a time.
const heldAtOnce = 8

// eachStored calls fn with each patch of a key in the table of notes.
func (t *target) eachStored(ctx context.Context, key string, fn func(patch []byte) error) error {
	for after := (*int64)(nil); ; {
		var held []heldNote
		err := t.look(ctx, func() error {
			rows, err := t.Writer.Conn.Query(ctx, t.sqlNotes(position.PostgresHeld), t.Table, t.Name, asText(key), after, heldAtOnce)
			if err != nil {
				return err
			}
			held, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (h heldNote, err error) {
				return h, row.Scan(&h.n, &h.patch)
			})
			return err
		})
		if err != nil {
			return err
		}
		for _, h := range held {
			if err := fn(h.patch); err != nil {
				return err
			}
		}
		if len(held) < heldAtOnce {
			return nil
		}
		after = &held[len(held)-1].n
	}
}

// queueNotes queues the statements that write the notes of the batch or, if the tail is complete,
// the statement that removes all notes.
func (t *target) queueNotes(b *pgx.Batch) {
	if t.complete {
		b.Queue(t.sqlNotes(position.PostgresRemoveNotes), t.Table, t.Name)
		return
	}
	var released, keys []string
	var numbers []int64
	var patches [][]byte
	add := func(key string, n int64, patch []byte) {
		keys, numbers, patches = append(keys, key), append(numbers, n), append(patches, patch)
	}
	for key, k := range t.notes {
		key = asText(key)
		if k.released {
			released = append(released, key)
		}
		if k.buried {
			add(key, 0, nil)
		}
		for _, h := range k.held {
			add(key, h.n, h.patch)
		}
	}
	if len(released) > 0 {
		b.Queue(t.sqlNotes(position.PostgresRelease), t.Table, t.Name, released)
	}
	if len(keys) > 0 {
		b.Queue(t.sqlNotes(position.PostgresNote), t.Table, t.Name, keys, numbers, patches)
	}
}
