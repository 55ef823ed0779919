package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
)

// A Log is a sink that has an entry for each entity of the feed, in order.
type Log interface {
	// Position returns the position of the sink's consumer.
	Position() feed.Position
	// Entities yields what each entry up to the position says about its entity.
	Entities(ctx context.Context) iter.Seq2[sink.Logged, error]
	Close() error
}

// A LogConfig says what to compare.
type LogConfig struct {
	// Client reads the feed at URL. It must not follow the feed.
	Client *consumer.Client
	URL    string
	// Found, if not nil, is called with each Content-ID that differs: those that are missing or out of
	// order, in the order of the feed, and then those that are extra.
	Found func(Line) error
	// Progress, if not nil, is called now and then.
	Progress func(Progress)
}

// RunLog compares a log with its feed, beginning with the first entity in the log and ending at the log's
// position: each Content-ID must occur once, and in the order of the feed. Bodies are not compared. The key
// of a [Line] is a Content-ID.
func RunLog(ctx context.Context, c LogConfig, log Log) (*Report, error) {
	s, err := newScratch(ctx)
	if err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	r := &logRun{LogConfig: c, scratch: s, report: &Report{
		Position: log.Position(), Remarks: []string{"of each entry, only the Content-ID and the order are compared"},
	}}
	err = r.run(ctx, log)
	if err = errors.Join(err, s.close()); err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	return r.report, nil
}

type logRun struct {
	LogConfig
	scratch    *scratch
	report     *Report
	find, mark *sqlite.Stmt
	first      int64 // the first entry that the feed has; 0: none yet
	last       int64 // the greatest entry found so far
}

const (
	createEntries = "CREATE TABLE entries (id TEXT NOT NULL, n INTEGER NOT NULL, found INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (id, n)) WITHOUT ROWID"
	addEntry      = "INSERT INTO entries (id, n) VALUES (?1, ?2)"
	findEntry     = "SELECT n FROM entries WHERE id = ?1 AND NOT found ORDER BY n LIMIT 1"
	markEntry     = "UPDATE entries SET found = 1 WHERE id = ?1 AND n = ?2"
	notFound      = "SELECT id FROM entries WHERE NOT found AND n > ?1 ORDER BY n"
	countBefore   = "SELECT count(*) FROM entries WHERE NOT found AND n < ?1"
)

func (r *logRun) run(ctx context.Context, log Log) error {
	to := r.report.Position
	if to.IsZero() || to.Snapshot != nil || to.ContentID == "" {
		return ErrFilling
	}
	from, err := r.read(ctx, log)
	if err != nil {
		return err
	}
	for e, err := range r.Client.Entities(ctx, r.URL, from) {
		if err != nil {
			return fmt.Errorf("read the feed: %w", err)
		}
		if err := r.entity(e.ContentID); err != nil {
			return err
		}
		if e.ContentID == to.ContentID {
			return r.rest()
		}
	}
	return gone(to)
}

// read records all entries, and returns where reading the feed must begin.
func (r *logRun) read(ctx context.Context, log Log) (consumer.Start, error) {
	if err := sqlitex.ExecuteTransient(r.scratch.conn, createEntries, nil); err != nil {
		return consumer.Start{}, err
	}
	add, err := r.scratch.conn.Prepare(addEntry)
	if err == nil {
		r.find, err = r.scratch.conn.Prepare(findEntry)
	}
	if err == nil {
		r.mark, err = r.scratch.conn.Prepare(markEntry)
	}
	if err != nil {
		return consumer.Start{}, err
	}
	from := consumer.Beginning()
	for e, err := range log.Entities(ctx) {
		if err != nil {
			return from, err
		}
		if r.report.Rows++; r.report.Rows == 1 && !e.LastModified.IsZero() {
			from = consumer.Since(e.LastModified)
		}
		add.BindText(1, e.ContentID)
		add.BindInt64(2, r.report.Rows)
		if err := exec(add); err != nil {
			return from, err
		}
		r.progress()
	}
	return from, nil
}

func (r *logRun) progress() {
	if r.Progress != nil && r.report.Rows%1024 == 0 {
		r.Progress(Progress{Rows: r.report.Rows})
	}
}

// entity looks up the entry for the next entity of the feed.
func (r *logRun) entity(id string) error {
	r.find.BindText(1, id)
	found, err := r.find.Step()
	n := int64(0)
	if found {
		n = r.find.ColumnInt64(0)
	}
	if err := errors.Join(err, r.find.Reset()); err != nil {
		return err
	}
	if !found {
		if r.first == 0 && r.report.Rows > 0 {
			return nil // the log begins later
		}
		r.report.Missing++
		return r.found(Missing, id, "")
	}
	r.mark.BindText(1, id)
	r.mark.BindInt64(2, n)
	if err := exec(r.mark); err != nil {
		return err
	}
	if r.first == 0 {
		r.first = n
	}
	if n < r.last {
		r.report.Changed++
		return r.found(Changed, id, "it is out of order")
	}
	r.last = n
	r.report.Equal++
	r.report.ByContentID++
	return nil
}

// rest reports the entries for which the feed has no entity.
func (r *logRun) rest() error {
	before := int64(0)
	err := sqlitex.ExecuteTransient(r.scratch.conn, countBefore, &sqlitex.ExecOptions{
		Args: []any{r.first}, ResultFunc: func(s *sqlite.Stmt) error { before = s.ColumnInt64(0); return nil },
	})
	if err != nil {
		return err
	}
	if before > 0 {
		r.report.Remarks = append(r.report.Remarks, fmt.Sprintf("%d entries before the first entity that the feed has are not compared", before))
	}
	return sqlitex.ExecuteTransient(r.scratch.conn, notFound, &sqlitex.ExecOptions{
		Args: []any{r.first}, ResultFunc: func(s *sqlite.Stmt) error {
			r.report.Extra++
			return r.found(Extra, s.ColumnText(0), "the feed does not have it, or the log has it twice")
		},
	})
}

func (r *logRun) found(kind Kind, id, why string) error {
	if r.Found == nil {
		return nil
	}
	return r.Found(Line{kind, id, why})
}
