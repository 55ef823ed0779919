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

// An Index knows the versions that the feed holds, so that what a source repeats is
// recognised. It says nothing that the feed does not say: an index that is lost,
// damaged or behind is filled from the feed.
//
// It is a table in an SQLite file. A version takes about 40 bytes there, and its
// hashes stand for it: 128 bits for the document, 64 for the revision among those
// of the document. Several processes may use one index.
type Index struct {
	path string
	kind string // of checkpoints

	mu   sync.Mutex
	conn *sqlite.Conn
	// flight has the versions on their way into the feed, and those that are there and
	// not in the table yet: these are true.
	flight map[hash]bool
	queue  []hash // those that are true, in the order of the feed
	at     place  // with them
	seen   place  // of the table, when it was last read or written here
}

// errMoved: another process has written the table since it was last read. What waits for
// being written may be older than what is there: the feed knows, see [index.catchUp].
var errMoved = errors.New("another process has written it")

// queueLimit is how many versions wait for being written into the table: versions are all over
// it, so a transaction of few writes nearly as much as one of many.
const queueLimit = 8192

// A hash stands for a version: the first 16 bytes for the document.
type hash [24]byte

func (v Version) hash() (h hash) {
	doc, rev := sha256.Sum256([]byte(v.ID)), sha256.Sum256([]byte(v.Rev))
	copy(h[:16], doc[:])
	copy(h[16:], rev[:])
	return h
}

func (h *hash) doc() []byte { return h[:16] }
func (h *hash) rev() []byte { return h[16:] }

// indexVersion is changed with the form of the table; one of another version is
// filled again.
const indexVersion = 1

const indexSchema = `
	CREATE TABLE IF NOT EXISTS pairs (
		doc BLOB NOT NULL, rev BLOB NOT NULL,
		n INTEGER NOT NULL, -- in the order of the feed
		PRIMARY KEY (doc, rev)
	) WITHOUT ROWID;
	CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;`

// openIndex opens the index in a file, which is created if it does not exist and
// made again if it is damaged.
func openIndex(path, kind string) (*Index, error) {
	x := &Index{path: path, kind: kind, flight: map[hash]bool{}}
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
	path, err := filepath.Abs(x.path) // SQLite takes it as it stands, but not file:x or :memory:
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
	// A power failure may cost the last commits, but not the order of the file.
	for _, pragma := range []string{"synchronous=NORMAL", "cache_size=-4096", "journal_size_limit=4194304"} {
		if err := sqlitex.ExecuteTransient(x.conn, "PRAGMA "+pragma, nil); err != nil {
			return err
		}
	}
	version, err := sqlitex.ResultInt(x.conn.Prep("PRAGMA user_version"))
	if err != nil {
		return err
	}
	if version != indexVersion {
		drop := fmt.Sprintf("DROP TABLE IF EXISTS pairs; DROP TABLE IF EXISTS state; PRAGMA user_version=%d", indexVersion)
		if err := sqlitex.ExecuteScript(x.conn, drop, nil); err != nil {
			return err
		}
	}
	return sqlitex.ExecuteScript(x.conn, indexSchema, nil)
}

// remove deletes the file, so that it can be made again.
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

// Close writes what waits for it and closes the file.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conn == nil {
		return nil
	}
	return errors.Join(x.settleQueue(), x.conn.Close())
}

// A Claim is what the index says to a version that is to be published.
type Claim int

// What an index says.
const (
	Absent   Claim = iota // not in the feed, and now on its way there
	Newest                // in the feed, as the newest of its document
	Older                 // in the feed, and followed by another of its document; or that may be so when all is there
	OnItsWay              // on its way into the feed
)

// Claim asks whether versions are in the feed or on their way there. Those that are not are
// on their way from now on.
func (x *Index) Claim(versions ...Version) (claims []Claim, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask index %s: %w", x.path, err)
		}
	}()
	hashes := make([]hash, len(versions))
	for i, p := range versions {
		hashes[i] = p.hash()
	}
	if claims, err = x.look(hashes); err != nil {
		return nil, err
	}
	if len(x.queue) > 0 && slices.ContainsFunc(claims, func(c Claim) bool { return c != Absent }) {
		if err := x.write(); err != nil { // only the table knows which is the newest
			return nil, err
		}
		if claims, err = x.look(hashes); err != nil {
			return nil, err
		}
	}
	var underway map[[16]byte]int // made when it is needed, which is seldom
	for i, h := range hashes {
		_, flying := x.flight[h]
		if claims[i] == Absent && flying {
			claims[i] = OnItsWay // twice in one batch
		}
		if claims[i] == Absent {
			x.flight[h] = false
			if underway != nil {
				underway[[16]byte(h.doc())]++
			}
			continue
		}
		if underway == nil {
			underway = x.underway()
		}
		// Another revision of the document may come into the feed after this one, so this one
		// would be the older.
		others := underway[[16]byte(h.doc())]
		if flying {
			others--
		}
		if others > 0 {
			claims[i] = Older
		}
	}
	return claims, nil
}

// underway counts the versions on their way into the feed, by document.
func (x *Index) underway() map[[16]byte]int {
	all := make(map[[16]byte]int, len(x.flight))
	for h, there := range x.flight {
		if !there {
			all[[16]byte(h.doc())]++
		}
	}
	return all
}

// look returns what is known of versions, with one look at the file for all.
func (x *Index) look(hashes []hash) (claims []Claim, err error) {
	defer sqlitex.Transaction(x.conn)(&err)
	claims = make([]Claim, len(hashes))
	for i, h := range hashes {
		if _, ok := x.flight[h]; ok {
			claims[i] = OnItsWay
		} else if claims[i], err = x.find(&h); err != nil {
			return nil, err
		}
	}
	return claims, nil
}

// find returns what the table says to a version.
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

// number returns the one number that a statement gives for a document, 0 for none.
func number(get *sqlite.Stmt, h *hash) (n int64, err error) {
	get.BindBytes(1, h.doc())
	found, err := get.Step()
	if found {
		n = get.ColumnInt64(0)
	}
	return n, errors.Join(err, get.Reset())
}

// Ask returns what the feed has of a version, apart from what is on its way there.
func (x *Index) Ask(v Version) (Claim, error) {
	h := v.hash()
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.write(); err != nil {
		return Absent, err
	}
	held, err := x.find(&h)
	if err != nil {
		return held, fmt.Errorf("ask index %s: %w", x.path, err)
	}
	return held, nil
}

// Release takes back claims: the versions are not going to be published now.
func (x *Index) Release(versions ...Version) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range versions {
		delete(x.flight, p.hash())
	}
}

// settle takes back all claims, and writes what waits for it.
func (x *Index) settle() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.settleQueue()
	clear(x.flight)
	return err
}

// settleQueue writes what waits for it, or forgets it: it is in the feed.
func (x *Index) settleQueue() error {
	err := x.write()
	if errors.Is(err, errMoved) {
		x.queue, x.at = x.queue[:0], place{}
		return nil
	}
	return err
}

// A place is how much of the feed the index knows: everything up to, and with, the
// entity with this Content-ID, which is on this page.
type place struct {
	Feed      string `json:"feed"` // that of its checkpoint
	Page      int64  `json:"page"`
	ContentID string `json:"contentId"`
	Versions  int64  `json:"pairs"` // that were ever added: the number of the last
}

// add notes versions that are in the feed, in its order, and how far the index knows the
// feed then.
func (x *Index) add(versions []Version, at place) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, p := range versions {
		h := p.hash()
		x.flight[h] = true
		x.queue = append(x.queue, h)
	}
	x.at = at
	if len(x.queue) < queueLimit {
		return nil
	}
	return x.write()
}

// write writes what waits for it into the table.
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
	x.at.Versions = known.Versions
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
	for _, h := range x.queue {
		delete(x.flight, h)
	}
	x.queue, x.at, x.seen = x.queue[:0], place{}, x.at
	return nil
}

// clear forgets everything.
func (x *Index) clear() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := sqlitex.ExecuteScript(x.conn, "DELETE FROM pairs; DELETE FROM state", nil); err != nil {
		return fmt.Errorf("clear index %s: %w", x.path, err)
	}
	x.seen = place{}
	return nil
}

// A resting is a place in the source up to which everything is in the feed, although
// the feed's checkpoint does not say so: what came after that was nothing to publish,
// and a checkpoint needs an entity to be stored with. It holds as long as the feed's
// checkpoint is the one that it was found under, for who selects the same.
type resting struct {
	Checkpoint []byte          `json:"checkpoint"`
	Selection  string          `json:"selection"`
	Since      json.RawMessage `json:"since"`
	Session    string          `json:"session"` // that has come there
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

// known returns how much of the feed the table knows.
func (x *Index) known() (place, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen = place{}
	err := x.read("place", &x.seen)
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

// getState reads a value; one that is not there leaves v as it is.
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
