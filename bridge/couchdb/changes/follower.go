package changes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/jsonscan"
)

// ErrRecreated means that the database was deleted and created again, or replaced. Positions in the
// old database are not valid in the new one.
var ErrRecreated = errors.New("database was deleted and created again: follow it from its beginning")

var (
	errCut     = errors.New("feed ended without last_seq")
	errEmpty   = errors.New("server ends the feed at once instead of waiting for changes")
	errSilence = errors.New("filtered feed is silent")
)

// Stats holds the counts of a Follower.
type Stats struct {
	Rows     int64 // rows in batches
	Requests int64 // requests for the feed
}

// A Follower reads a changes feed. Its methods must not be called concurrently.
type Follower struct {
	db       *couchdb.DB
	options  Options
	instance string
	info     couchdb.Info
	stats    Stats

	since     json.RawMessage // the last position read
	noPost    bool            // the server requires the selector in the URL
	eager     bool            // request a sequence with each row
	catchUp   bool            // the next request only finds the position
	malformed malformedState
	warned    bool // about the absence of rows

	response
	next   *next // or nil
	lines  lineReader
	batch  *Batch // being filled; may be nil
	handle func(*Batch) error
}

// A malformedState says how malformed rows are handled.
type malformedState int

const (
	none      malformedState = iota // no row was malformed
	rereading                       // a malformed row was requested again
	reread                          // malformed rows are delivered, up to the end of the response
)

// New returns a Follower of db. It makes no request.
func New(db *couchdb.DB, o Options) (*Follower, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("follow changes of %s: %w", db.URL(), err)
	}
	lines := lineReader{json: jsonscan.NewReader(nil), maxWhole: db.MaxWhole(), spoolDir: db.SpoolDir()}
	return &Follower{db: db, options: o, since: o.Since, instance: o.Instance, lines: lines}, nil
}

// Follow calls handle with the rows of the feed, in batches, or with a batch without rows if only
// the position has changed. It returns nil at the end of a Normal feed. The batch belongs to handle,
// which must close it; if handle returns an error, Follow ends.
//
// After an error, Follow can be called again, and continues after the last batch. That is of no use
// if the error matches ErrRecreated, because the database was replaced, or is [couchdb.Permanent]:
// the database does not exist, or the server refuses the credentials, the position or the filter.
func (f *Follower) Follow(ctx context.Context, handle func(*Batch) error) error {
	f.handle = handle
	defer f.drop()
	for {
		began, before := time.Now(), f.since
		done, err := f.connect(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case done:
			return nil
		case err == errSilence:
			continue
		case err == nil && (f.rows > 0 || f.kind == Normal || time.Since(began) >= shortest):
			continue // servers end live feeds now and then
		case err == nil:
			err = errEmpty
		case f.rows > 0 && f.malformed != rereading && string(before) == string(f.since):
			f.eager = true // otherwise each connection may break before the next sequence
		}
		return fmt.Errorf("follow changes of %s: %w", f.db.URL(), err)
	}
}

// shortest is how long a server must wait for changes before it may end a feed that has none.
const shortest = 250 * time.Millisecond

// Instance identifies the database, to recognize that it was deleted and created again. Store it
// with the position. It is set before the first batch: [couchdb.Info.Instance]; or, with CouchDB
// before 3.3, the server's uuid and the database's name (all nodes of a cluster must have the same
// uuid, according to its documentation); or empty if the server sends neither (Cloudant, PouchDB
// Server).
func (f *Follower) Instance() string { return f.instance }

// Info returns the description of the database as of the follower's last connection. It is empty
// before the first batch.
func (f *Follower) Info() couchdb.Info { return f.info }

// Stats returns the counts so far.
func (f *Follower) Stats() Stats { return f.stats }

// serverPrefix distinguishes a server's uuid from the instance of a database.
const serverPrefix = "server "

// A database is what a server says about a database.
type database struct {
	info     couchdb.Info
	instance string // see [Follower.Instance]
}

// describe requests the description of a database.
func describe(ctx context.Context, db *couchdb.DB) (d database, err error) {
	if d.info, err = db.Info(ctx); err != nil {
		return d, err
	}
	d.instance = d.info.Instance()
	if d.instance == "" && len(d.info.Cluster) > 0 {
		// CouchDB before 3.3: use the name of the database and the server's uuid.
		server, err := db.Server(ctx)
		if err != nil && !couchdb.Permanent(err) { // permanent if a proxy exposes only databases
			return d, err
		}
		if server.UUID != "" {
			d.instance = serverPrefix + server.UUID + "/" + db.Name()
		}
	}
	return d, nil
}

// identify returns ErrRecreated if the database is not the one followed so far.
func (f *Follower) identify(d database) error {
	f.info = d.info
	switch {
	case d.instance == "":
	case f.instance == "", strings.HasPrefix(d.instance, serverPrefix) != strings.HasPrefix(f.instance, serverPrefix):
		f.instance = d.instance // not comparable: first connection, or the server was upgraded
	case f.instance != d.instance:
		return fmt.Errorf("%w: instance was %s, is now %s", ErrRecreated, f.instance, d.instance)
	}
	return nil
}

// flush delivers the current batch.
func (f *Follower) flush() error {
	b := f.batch
	if b == nil {
		return nil
	}
	f.batch = nil
	f.stats.Rows += int64(len(b.Rows))
	defer func() { f.last = time.Now() }() // the feed was not silent meanwhile
	return f.handle(b)
}

// A heard is a callback for received data: Write calls it.
type heard func()

func (h heard) Write(p []byte) (int, error) {
	h()
	return len(p), nil
}
