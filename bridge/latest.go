package bridge

import (
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Held is what the feed has for an id. The zero Held means that the feed never had the id.
type Held struct {
	Stamp int64 // of the newest version, which may be a deletion
	Top   int64 // the highest stamp that the id ever had
	Live  bool  // the newest version is not a deletion
}

// A latest is the part of an index that has only the newest version of each id.
type latest struct {
	underway map[string]Held // those that are being published, or not in the table yet
	queue    []change        // those in the feed, in its order
	highest  int64           // no stamp in the table or above is higher
}

// StampOf returns the stamp of a revision, or 0 if it does not begin with one.
func StampOf(rev string) int64 {
	digits, _, _ := strings.Cut(rev, ";")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// with returns what the feed has for the id after a version is added.
func (h Held) with(stamp int64, live bool) Held {
	return Held{Stamp: stamp, Top: max(h.Top, stamp), Live: live}
}

// Look returns what the feed has for each id, including versions that are being published. Like the
// methods below, it needs [Config.Latest].
func (x *Index) Look(ids ...string) (held []Held, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer func() {
		if err != nil {
			err = fmt.Errorf("query index %s: %w", x.path, err)
		}
	}()
	defer sqlitex.Transaction(x.conn)(&err)
	held = make([]Held, len(ids))
	for i, id := range ids {
		if held[i], err = x.look(id); err != nil {
			return nil, err
		}
	}
	return held, nil
}

func (x *Index) look(id string) (h Held, err error) {
	if h, ok := x.latest.underway[id]; ok {
		return h, nil
	}
	get := x.conn.Prep("SELECT stamp, coalesce(top, stamp), live FROM latest WHERE id=?1")
	bindID(get, id)
	found, err := get.Step()
	if found {
		h = Held{Stamp: get.ColumnInt64(0), Top: get.ColumnInt64(1), Live: get.ColumnBool(2)}
	}
	return h, errors.Join(err, get.Reset())
}

// Highest returns an upper bound of the stamps in the feed and of the versions that are being
// published. A version with a higher stamp is new.
func (x *Index) Highest() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.latest.highest
}

// Publishing records a version that is about to be published, for the next [Index.Look]; h is what
// the feed has for its id.
func (x *Index) Publishing(id string, h Held, stamp int64, live bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.latest.underway[id] = h.with(stamp, live)
	x.latest.highest = max(x.latest.highest, stamp)
}

// Unpublished removes a version that was not published after all; h is what the feed had before.
func (x *Index) Unpublished(id string, h Held) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.latest.underway[id] = h
}

// writeLatest writes the queue of newest versions in a transaction.
func (x *Index) writeLatest() error {
	put := x.conn.Prep(`INSERT INTO latest (id, stamp, live) VALUES (?1, ?2, ?3)
		ON CONFLICT DO UPDATE SET top=nullif(max(coalesce(top, stamp), ?2), ?2), stamp=?2, live=?3`)
	// In the order of the table, pages of the file are neither read nor written twice.
	slices.SortStableFunc(x.latest.queue, func(a, b change) int { return strings.Compare(a.ID, b.ID) })
	for _, c := range x.latest.queue {
		stamp := StampOf(c.Rev)
		x.at.Highest = max(x.at.Highest, stamp)
		bindID(put, c.ID)
		put.BindInt64(2, stamp)
		put.BindBool(3, !c.deleted)
		if _, err := put.Step(); err != nil {
			return err
		}
		if err := put.Reset(); err != nil {
			return err
		}
	}
	return nil
}

// written empties the queue, once it is in the file.
func (l *latest) written(highest int64) {
	for _, c := range l.queue {
		if h := l.underway[c.ID]; h.Stamp == StampOf(c.Rev) && h.Live == !c.deleted {
			delete(l.underway, c.ID)
		}
	}
	l.queue, l.highest = l.queue[:0], max(l.highest, highest)
}

// Partial reports whether the index lacks versions, because pages of the feed had been pruned before
// they were added.
func (x *Index) Partial() (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var known place
	err := x.read("place", &known)
	return known.Partial, err
}

// Mark begins to mark ids, and removes all earlier marks.
func (x *Index) Mark() error {
	return x.flushed(func() error {
		return sqlitex.ExecuteScript(x.conn, "CREATE TEMP TABLE IF NOT EXISTS marked (id PRIMARY KEY NOT NULL) WITHOUT ROWID; DELETE FROM marked", nil)
	})
}

// MarkIDs marks ids.
func (x *Index) MarkIDs(ids ...string) error {
	return x.flushed(func() (err error) {
		defer sqlitex.Save(x.conn)(&err)
		put := x.conn.Prep("INSERT OR IGNORE INTO marked (id) VALUES (?1)")
		for _, id := range ids {
			bindID(put, id)
			if _, err := put.Step(); err != nil {
				return err
			}
			if err := put.Reset(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Count returns the number of live ids in the settled part of the feed. Those with a "/" are left
// out.
func (x *Index) Count() (n int64, err error) {
	err = x.flushed(func() error {
		n, err = sqlitex.ResultInt64(x.conn.Prep("SELECT count(*) FROM latest WHERE live AND (typeof(id)='blob' OR instr(id, '/')=0)"))
		return err
	})
	return n, err
}

// unmarkedAtOnce is how many ids are read from the table at a time.
const unmarkedAtOnce = 1000

// Unmarked yields, in groups, the live ids in the settled part of the feed that are not marked.
// Those with a "/" are left out.
func (x *Index) Unmarked() iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		after := ""
		for {
			ids, err := x.unmarked(after)
			if err != nil {
				yield(nil, err)
				return
			}
			if len(ids) == 0 || !yield(ids, nil) {
				return
			}
			after = ids[len(ids)-1]
		}
	}
}

func (x *Index) unmarked(after string) (ids []string, err error) {
	err = x.flushed(func() error {
		get := x.conn.Prep("SELECT id FROM latest WHERE id>?1 AND live AND (typeof(id)='blob' OR instr(id, '/')=0) AND id NOT IN (SELECT id FROM marked) ORDER BY id LIMIT ?2")
		bindID(get, after)
		get.BindInt64(2, unmarkedAtOnce)
		for {
			found, err := get.Step()
			if !found || err != nil {
				return errors.Join(err, get.Reset())
			}
			ids = append(ids, columnID(get, 0))
		}
	})
	return ids, err
}

// flushed writes the queue to the table, and calls f.
func (x *Index) flushed(f func() error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.write()
	if err == nil {
		if err = f(); err != nil {
			err = fmt.Errorf("query index %s: %w", x.path, err)
		}
	}
	return err
}

// bindID binds an id as the first parameter: a UUID in its canonical form as a blob of 16 bytes, others as text. SQLite
// never confuses the two.
func bindID(s *sqlite.Stmt, id string) {
	if packed, ok := packUUID(id); ok {
		s.BindBytes(1, packed[:])
		return
	}
	s.BindText(1, id)
}

func columnID(s *sqlite.Stmt, column int) string {
	if s.ColumnType(column) != sqlite.TypeBlob {
		return s.ColumnText(column)
	}
	var packed [16]byte
	s.ColumnBytes(column, packed[:])
	h := hex.EncodeToString(packed[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

func packUUID(id string) (packed [16]byte, ok bool) {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return packed, false
	}
	var digits [32]byte
	n := 0
	for i := range len(id) {
		switch c := id[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
		case '0' <= c && c <= '9' || 'a' <= c && c <= 'f':
			digits[n] = c
			n++
		default:
			return packed, false
		}
	}
	_, err := hex.Decode(packed[:], digits[:])
	return packed, err == nil
}
