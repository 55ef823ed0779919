package bridge

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// An Index records the versions that are in the feed, to recognize versions that a
// source sends again. All of it is derived from the feed, so an index that is lost,
// damaged or outdated is filled from the feed.
//
// It is a table in an SQLite file. A version takes about 40 bytes and is identified by
// hashes: 128 bits for the document, and 64 for the revision. Several processes may use
// one index.
type Index struct {
	path string
	kind string // of checkpoints

	mu   sync.Mutex
	conn *sqlite.Conn
	// inFlight has the versions that are being published (false), and those that are in the
	// feed but not in the table yet (true).
	inFlight map[hash]bool
	queue    []hash  // those in the feed, in its order
	latest   *latest // nil: the table has all versions
	at       place   // including queue
	seen     place   // of the table when this Index last read or wrote it
}

// errMoved means that another process has written to the table since it was last read. The queue
// may be older than the table; [Index.catchUp] resolves that.
var errMoved = errors.New("another process has written it")

// queueLimit is how many versions are queued before they are written to the table. Versions
// are spread over the table, so a small transaction writes nearly as much as a large one.
const queueLimit = 8192

// A hash identifies a version. The first 16 bytes identify the document.
type hash [24]byte

func (v Version) hash() (h hash) {
	doc, rev := sha256.Sum256([]byte(v.ID)), sha256.Sum256([]byte(v.Rev))
	copy(h[:16], doc[:])
	copy(h[16:], rev[:])
	return h
}

func (h *hash) doc() []byte { return h[:16] }
func (h *hash) rev() []byte { return h[16:] }

// indexVersion is the version of the schema. An index of another version is filled again.
const indexVersion = 2

const indexSchema = `
	CREATE TABLE IF NOT EXISTS pairs (
		doc BLOB NOT NULL, rev BLOB NOT NULL,
		n INTEGER NOT NULL, -- in the order of the feed
		PRIMARY KEY (doc, rev)
	) WITHOUT ROWID;
	CREATE TABLE IF NOT EXISTS latest (
		id PRIMARY KEY NOT NULL, -- 16 bytes if it is a UUID
		stamp INTEGER NOT NULL,
		top INTEGER, -- the highest stamp that the id ever had, if that is another one
		live INTEGER NOT NULL
	) WITHOUT ROWID;
	CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;`

// openIndex opens the index in a file, which is created if it does not exist and
// recreated if it is damaged.
func openIndex(path, kind string, l *latest) (*Index, error) {
	x := &Index{path: path, kind: kind, inFlight: map[hash]bool{}, latest: l}
	err := x.open()
	if err != nil && damaged(err) {
		if err = x.remove(); err == nil {
			err = x.open()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open index %s: %w", path, err), x.Close())
	}
	return x, nil
}

func damaged(err error) bool {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultFormat:
		return true
	}
	return false
}

func (x *Index) open() (err error) {
	path, err := filepath.Abs(x.path) // SQLite gives names like file:x and :memory: a special meaning
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if x.conn, err = sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL); err != nil {
		return err
	}
	x.conn.SetBusyTimeout(10 * time.Second)
	// A power failure may lose the last commits, but does not damage the file.
	for _, pragma := range []string{"synchronous=NORMAL", "cache_size=-2048", "journal_size_limit=4194304"} {
		if err := sqlitex.ExecuteTransient(x.conn, "PRAGMA "+pragma, nil); err != nil {
			return err
		}
	}
	version, err := sqlitex.ResultInt(x.conn.Prep("PRAGMA user_version"))
	if err != nil {
		return err
	}
	if version != indexVersion {
		drop := fmt.Sprintf("DROP TABLE IF EXISTS pairs; DROP TABLE IF EXISTS latest; DROP TABLE IF EXISTS state; PRAGMA user_version=%d", indexVersion)
		if err := sqlitex.ExecuteScript(x.conn, drop, nil); err != nil {
			return err
		}
	}
	return sqlitex.ExecuteScript(x.conn, indexSchema, nil)
}

// remove removes the files of the index.
func (x *Index) remove() (err error) {
	if x.conn != nil {
		err = x.conn.Close()
		x.conn = nil
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if e := os.Remove(x.path + suffix); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Close writes the queue and closes the file.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conn == nil {
		return nil
	}
	return errors.Join(x.settleQueue(), x.conn.Close())
}

// A Claim is the result of claiming a version for publication.
type Claim int

// Results of claims.
const (
	Absent   Claim = iota // not in the feed; the caller must publish it
	Newest                // in the feed, as the newest version of its document
	Older                 // in the feed, and followed, now or soon, by another version of its document
	OnItsWay              // being published
)

// Claim returns, for each version, whether it is in the feed or being published. The caller must
// publish or release those that are neither.
func (x *Index) Claim(versions ...Version) (claims []Claim, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer func() {
		if err != nil {
			err = fmt.Errorf("query index %s: %w", x.path, err)
		}
	}()
	hashes := make([]hash, len(versions))
	for i, p := range versions {
		hashes[i] = p.hash()
	}
	if claims, err = x.lookUp(hashes); err != nil {
		return nil, err
	}
	if len(x.queue) > 0 && slices.ContainsFunc(claims, func(c Claim) bool { return c != Absent }) {
		if err := x.write(); err != nil { // which version is the newest is only in the table
			return nil, err
		}
		if claims, err = x.lookUp(hashes); err != nil {
			return nil, err
		}
	}
	var underway map[[16]byte]int // rarely needed, so created on demand
	for i, h := range hashes {
		_, inFlight := x.inFlight[h]
		if claims[i] == Absent && inFlight {
			claims[i] = OnItsWay // twice in one batch
		}
		if claims[i] == Absent {
			x.inFlight[h] = false
			if underway != nil {
				underway[[16]byte(h.doc())]++
			}
			continue
		}
		if underway == nil {
			underway = x.underway()
		}
		// If another revision of the document is being published, this revision may become the
		// older one.
		others := underway[[16]byte(h.doc())]
		if inFlight {
			others--
		}
		if others > 0 {
			claims[i] = Older
		}
	}
	return claims, nil
}

// underway counts the versions being published, by document.
func (x *Index) underway() map[[16]byte]int {
	all := make(map[[16]byte]int, len(x.inFlight))
	for h, there := range x.inFlight {
		if !there {
			all[[16]byte(h.doc())]++
		}
	}
	return all
}

// lookUp looks up versions in one transaction.
func (x *Index) lookUp(hashes []hash) (claims []Claim, err error) {
	defer sqlitex.Transaction(x.conn)(&err)
	claims = make([]Claim, len(hashes))
	for i, h := range hashes {
		if _, ok := x.inFlight[h]; ok {
			claims[i] = OnItsWay
		} else if claims[i], err = x.find(&h); err != nil {
			return nil, err
		}
	}
	return claims, nil
}

// find looks up a version in the table.
func (x *Index) find(h *hash) (Claim, error) {
	get := x.conn.Prep("SELECT n FROM pairs WHERE doc=?1 AND rev=?2")
	get.BindBytes(2, h.rev())
	n, err := number(get, h)
	if n == 0 || err != nil {
		return Absent, err
	}
	newest, err := number(x.conn.Prep("SELECT max(n) FROM pairs WHERE doc=?1"), h)
	if n < newest {
		return Older, err
	}
	return Newest, err
}

// number returns the number that a statement returns for a document, or 0.
func number(get *sqlite.Stmt, h *hash) (n int64, err error) {
	get.BindBytes(1, h.doc())
	found, err := get.Step()
	if found {
		n = get.ColumnInt64(0)
	}
	return n, errors.Join(err, get.Reset())
}

// Ask looks up whether a version is in the feed, ignoring versions that are being published.
func (x *Index) Ask(v Version) (Claim, error) {
	h := v.hash()
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.write(); err != nil {
		return Absent, err
	}
	held, err := x.find(&h)
	if err != nil {
		return held, fmt.Errorf("query index %s: %w", x.path, err)
	}
	return held, nil
}

// Release releases claims of versions that are not published after all.
func (x *Index) Release(versions ...Version) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range versions {
		delete(x.inFlight, p.hash())
	}
}

// settle writes the queue and releases all claims.
func (x *Index) settle() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.settleQueue()
	clear(x.inFlight)
	if x.latest != nil {
		clear(x.latest.underway)
	}
	return err
}

// settleQueue writes the queue, or drops it if another process has written the table: the
// versions can be read from the feed.
func (x *Index) settleQueue() error {
	err := x.write()
	if errors.Is(err, errMoved) {
		x.queue, x.at = x.queue[:0], place{}
		if x.latest != nil {
			x.latest.queue = x.latest.queue[:0]
		}
		return nil
	}
	return err
}

// A place is the position in the feed up to which the index is filled: up to and including the
// entity ContentID on page Page.
type place struct {
	Feed      string `json:"feed"` // of its checkpoint
	Page      int64  `json:"page"`
	ContentID string `json:"contentId"`
	Versions  int64  `json:"pairs"` // number of the last version added
	// Partial means that pages had been pruned before they were added.
	Partial bool `json:"partial,omitempty"`
	// Highest is the highest stamp that was added to an index of newest versions.
	Highest int64 `json:"highest,omitempty"`
}

// A change is a version in the feed; deleted is set if it is a deletion.
type change struct {
	Version
	deleted bool
}

// add adds versions that are in the feed, in its order. With these, the index is filled up to the
// position at.
func (x *Index) add(versions []change, at place) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at = at
	if x.latest != nil {
		x.latest.queue = append(x.latest.queue, versions...)
		if len(x.latest.queue) < queueLimit {
			return nil
		}
		return x.write()
	}
	for _, p := range versions {
		h := p.hash()
		x.inFlight[h] = true
		x.queue = append(x.queue, h)
	}
	if len(x.queue) < queueLimit {
		return nil
	}
	return x.write()
}

// write writes the queue to the table.
func (x *Index) write() (err error) {
	if x.at == (place{}) {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("write index %s: %w", x.path, err)
		}
	}()
	end, err := sqlitex.ImmediateTransaction(x.conn)
	if err != nil {
		return err
	}
	defer end(&err)
	var known place
	if err := x.getState("place", &known); err != nil {
		return err
	}
	if known != x.seen {
		return errMoved
	}
	x.at.Versions, x.at.Partial, x.at.Highest = known.Versions, x.at.Partial || known.Partial, known.Highest
	if x.latest != nil {
		if err := x.writeLatest(); err != nil {
			return err
		}
	}
	put := x.conn.Prep("INSERT INTO pairs (doc, rev, n) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET n=?3")
	for _, h := range x.queue {
		x.at.Versions++
		put.BindBytes(1, h.doc())
		put.BindBytes(2, h.rev())
		put.BindInt64(3, x.at.Versions)
		if _, err := put.Step(); err != nil {
			return err
		}
		if err := put.Reset(); err != nil {
			return err
		}
	}
	if err := x.setState("place", x.at); err != nil {
		return err
	}
	if x.latest != nil {
		x.latest.written(x.at.Highest)
	}
	for _, h := range x.queue {
		delete(x.inFlight, h)
	}
	x.queue, x.at, x.seen = x.queue[:0], place{}, x.at
	return nil
}

// clear removes all versions.
func (x *Index) clear() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := sqlitex.ExecuteScript(x.conn, "DELETE FROM pairs; DELETE FROM latest; DELETE FROM state", nil); err != nil {
		return fmt.Errorf("clear index %s: %w", x.path, err)
	}
	x.seen = place{}
	return nil
}

// A resting is a position in the source up to which everything is in the feed, although the feed's
// checkpoint has an earlier position: the changes in between needed no entity, and a checkpoint is
// stored only with an entity. It is valid while the feed's checkpoint and the selection remain the
// same.
type resting struct {
	Checkpoint []byte          `json:"checkpoint"`
	Selection  string          `json:"selection"`
	Since      json.RawMessage `json:"since"`
	Session    string          `json:"session"` // that reached it
}

func (x *Index) rest(r resting) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.setState("resting", r); err != nil {
		return fmt.Errorf("write index %s: %w", x.path, err)
	}
	return nil
}

func (x *Index) rested() (r resting, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err = x.read("resting", &r)
	return r, err
}

// known returns the position in the feed up to which the table is filled.
func (x *Index) known() (place, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen = place{}
	err := x.read("place", &x.seen)
	if x.latest != nil {
		x.latest.highest = max(x.latest.highest, x.seen.Highest)
	}
	return x.seen, err
}

func (x *Index) read(name string, v any) error {
	if err := x.getState(name, v); err != nil {
		return fmt.Errorf("read index %s: %w", x.path, err)
	}
	return nil
}

func (x *Index) setState(name string, v any) error {
	value, err := json.Marshal(v)
	if err != nil {
		return err
	}
	put := x.conn.Prep("INSERT OR REPLACE INTO state (name, value) VALUES (?1, ?2)")
	put.BindText(1, name)
	put.BindBytes(2, value)
	_, err = put.Step()
	return errors.Join(err, put.Reset())
}

// getState reads a value into v, which is unchanged if the value does not exist.
func (x *Index) getState(name string, v any) error {
	get := x.conn.Prep("SELECT value FROM state WHERE name=?1")
	get.BindText(1, name)
	found, err := get.Step()
	if found {
		value := make([]byte, get.ColumnLen(0))
		get.ColumnBytes(0, value)
		err = json.Unmarshal(value, v)
	}
	return errors.Join(err, get.Reset())
}
