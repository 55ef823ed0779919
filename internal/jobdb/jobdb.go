// Package jobdb provides the database of the scheduler. It is PostgreSQL or SQLite, with the same tables, the
// same statements and the same queue of runs.
//
// Statements are written once for both. They name tables as @job, and may contain @now, the time of the
// database's clock in microseconds since 1970. At the end of a SELECT, @lock locks the selected rows; @skip
// locks those that no other transaction has locked, and omits the others. Parameters are $1, $2 and so on.
package jobdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/feedctl/feedctl/internal/suggest"
)

// ErrOld means that the tables are those of an older program, and are not to be migrated.
var ErrOld = errors.New("tables of the scheduler are those of an older version")

// ErrVersion means that the tables were migrated by a newer program, or do not exist.
var ErrVersion = errors.New("tables of the scheduler do not have the expected version")

// ErrNone means that the database has no tables of the scheduler, or that its file does not exist, and that
// they are not to be created.
var ErrNone = errors.New("no jobs database")

// ErrURL means that a URL does not name a database.
var ErrURL = errors.New("invalid URL")

// ErrReserved means that only one node may use the database, and that another node is using it.
var ErrReserved = errors.New("another node uses the database")

// A Tx is a transaction.
type Tx interface {
	// Exec returns how many rows the statement changed.
	Exec(ctx context.Context, sql string, args ...any) (int64, error)
	Query(ctx context.Context, sql string, args ...any) (Rows, error)
}

// Rows is the result of a query. Close must be called; it returns the error of the query.
type Rows interface {
	Next() bool
	Scan(into ...any) error
	Close() error
}

// A driver is a kind of database.
type driver interface {
	begin(ctx context.Context, readOnly bool, do func(Tx) error) error
	dialect() dialect
	// alone calls do while no other process does the same with this database.
	alone(ctx context.Context, do func() error) error
	migrateQueue(ctx context.Context) error
	queue(ctx context.Context, c QueueConfig) (Queue, error)
	ui(ctx context.Context, prefix string) (http.Handler, error)
	// reserve reserves the database for one node; the closer is nil if the database is for any number of nodes.
	reserve(ctx context.Context) (io.Closer, error)
	// has reports whether there is a table or an index with the given name.
	has(ctx context.Context, name string) (bool, error)
	// name returns the URL of the database without credentials.
	name() string
	close() error
}

// A dialect holds the parts of statements that differ between databases.
type dialect struct {
	prefix string // precedes the names of tables
	now    string // microseconds since 1970
	lock   string
	skip   string
	param  string // precedes the number of a parameter
	// unnumbered means that a parameter without a number gets the number after the largest one before it. This
	// matters since the time that SQLite needs for a statement grows with the square of the count of its
	// numbered parameters, of which there may be thousands.
	unnumbered bool
}

// A DB is an open database. Its methods may be called concurrently.
type DB struct {
	driver
	rewritten sync.Map // statement → its translation into the dialect
	clock     string   // replaces dialect.now, for tests
	before    func(ctx context.Context, sql string)
}

// Options holds the options of [Open].
type Options struct {
	// Clock is an expression for the time in microseconds, instead of the database's clock.
	Clock string
	// Before is called before each statement, if it is not nil.
	Before func(ctx context.Context, sql string)
	Access Access
}

// An Access is what a program may do with a database.
type Access int

// The kinds of access.
const (
	Migrate Access = iota // may write, and creates the database's tables or migrates them
	Write                 // may write; the tables must have the version of this program
	Read                  // may only read; the tables must have the version of this program
)

// Open opens a database by URL and, with access [Migrate], creates or migrates its tables:
//
//	postgres://USER@HOST/DATABASE?schema=NAME   default: feedctl_jobs
//	sqlite:FILE                                 a file of its own, for one node
//	sqlite::memory:
func Open(ctx context.Context, url string, o Options) (*DB, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	var d driver
	var err error
	switch scheme {
	case "postgres", "postgresql":
		d, err = openPostgres(ctx, url, o.Access)
	case "sqlite":
		d, err = openSQLite(rest, o.Access)
	default:
		err = fmt.Errorf("%w: unknown scheme %q: want postgres://… or sqlite:FILE%s", ErrURL, scheme, suggest.DidYouMean(scheme, []string{"postgres", "sqlite"}, ""))
	}
	if err != nil {
		return nil, fmt.Errorf("open database of jobs: %w", err)
	}
	db := &DB{driver: d, clock: o.Clock, before: o.Before}
	prepare := db.migrate
	if o.Access != Migrate {
		prepare = db.check
	}
	if err := prepare(ctx); err != nil {
		if scheme == "sqlite" && !errors.Is(err, ErrNone) { // ErrNone and errors of PostgreSQL name the database
			err = fmt.Errorf("%s: %w", rest, err)
		}
		return nil, errors.Join(fmt.Errorf("open database of jobs: %w", err), db.Close())
	}
	return db, nil
}

// Close closes the database.
func (db *DB) Close() error { return db.driver.close() }

// Reserve reserves the database for one node, until the closer is closed or the process ends. The closer is nil
// if the database can be used by several nodes. Other processes can still read and write. The error matches
// [ErrReserved] if another node has reserved the database.
func (db *DB) Reserve(ctx context.Context) (io.Closer, error) {
	c, err := db.reserve(ctx)
	if err != nil {
		return nil, fmt.Errorf("use database of jobs for a node: %w", err)
	}
	return c, nil
}

// UI returns a handler that serves web pages about runs, below the given path, until ctx ends. The pages can
// also change runs, but the caller must refuse requests that do so, since the scheduler does not learn of the
// changes.
func (db *DB) UI(ctx context.Context, prefix string) (http.Handler, error) {
	h, err := db.ui(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("prepare pages about runs: %w", err)
	}
	return h, nil
}

// Begin runs do in a transaction, which is committed if do returns nil. Begin may call do
// several times: after a deadlock, the transaction is rolled back and begins again.
func (db *DB) Begin(ctx context.Context, do func(Tx) error) error {
	return db.driver.begin(ctx, false, func(tx Tx) error { return do(&rewriting{tx, db}) })
}

// View runs do in a transaction that only reads. In it, @lock and @skip lock nothing, so it waits for no
// writer.
func (db *DB) View(ctx context.Context, do func(Tx) error) error {
	return db.driver.begin(ctx, true, func(tx Tx) error { return do(&unlocked{&rewriting{tx, db}}) })
}

// An unlocked is a transaction whose queries lock nothing.
type unlocked struct{ Tx }

var withoutLocks = strings.NewReplacer("@lock", "", "@skip", "")

func (u *unlocked) Query(ctx context.Context, sql string, args ...any) (Rows, error) {
	return u.Tx.Query(ctx, withoutLocks.Replace(sql), args...)
}

// A rewriting is a transaction that translates statements into the dialect.
type rewriting struct {
	Tx
	db *DB
}

func (t *rewriting) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	if t.db.before != nil {
		t.db.before(ctx, sql)
	}
	return t.Tx.Exec(ctx, t.db.rewrite(sql), args...)
}

func (t *rewriting) Query(ctx context.Context, sql string, args ...any) (Rows, error) {
	if t.db.before != nil {
		t.db.before(ctx, sql)
	}
	return t.Tx.Query(ctx, t.db.rewrite(sql), args...)
}

var token = regexp.MustCompile(`@[a-z]+|\$[0-9]+`)

// maxKept is the maximum number of parameters of a statement whose translation is kept. Statements with longer
// lists are not worth keeping, since their text differs for each length.
const maxKept = 40

func (db *DB) rewrite(sql string) string {
	if done, ok := db.rewritten.Load(sql); ok {
		return done.(string)
	}
	d := db.dialect()
	largest := 0
	done := token.ReplaceAllStringFunc(sql, func(name string) string {
		switch {
		case name[0] == '$':
			number, _ := strconv.Atoi(name[1:]) // cannot fail: the expression matches only digits
			if next := largest + 1; number == next && d.unnumbered {
				largest = next
				return d.param
			}
			largest = max(largest, number)
			return d.param + name[1:]
		case name == "@now" && db.clock != "":
			return db.rewrite(db.clock)
		case name == "@now":
			return d.now
		case name == "@lock":
			return d.lock
		case name == "@skip":
			return d.skip
		}
		return d.prefix + name[1:]
	})
	if strings.Count(sql, "$") <= maxKept {
		db.rewritten.Store(sql, done)
	}
	return done
}

// One scans the only row of a query, and reports whether there is one.
func One(ctx context.Context, tx Tx, sql string, args []any, into ...any) (found bool, err error) {
	err = Each(ctx, tx, sql, args, func(scan func(...any) error) error {
		found = true
		return scan(into...)
	})
	return found, err
}

// Each calls the given function for each row of a query. The argument of the call is a function that scans the
// row.
func Each(ctx context.Context, tx Tx, sql string, args []any, row func(scan func(...any) error) error) error {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return rows.Close()
}

// List returns the placeholders of n parameters, starting with the given one: "$3, $4".
func List(from, n int) string {
	var b strings.Builder
	for k := range n {
		if k > 0 {
			b.WriteString(", ")
		}
		b.WriteString("$" + strconv.Itoa(from+k))
	}
	return b.String()
}
