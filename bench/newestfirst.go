package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/layout"
)

// newestWanted is the number of newest entities that are waited for.
const newestWanted = 1000

// newestFirst measures how long it takes until the newest entities of a long feed (by default,
// 1,000,000 entities) are in a new sink, and until all of them are, compared with reading in order.
func (b *bench) newestFirst() error {
	entities := b.entities * 10 / 3
	dir, _, err := b.fill("newestfirst", entities)
	if err != nil {
		return err
	}
	s, err := b.serveStore(dir)
	if err != nil {
		return err
	}
	err = b.consumeNewestFirst(s, entities)
	return errors.Join(err, s.interrupt(), os.RemoveAll(dir))
}

func (b *bench) consumeNewestFirst(s *server, entities int) error {
	newest, ordered := filepath.Join(b.dir, "newest.db"), filepath.Join(b.dir, "ordered.db")
	consume := []string{"consume", s.url + layout.FeedPath("bench"), "--into"}
	start := time.Now()
	p, err := b.start(nil, b.feedctl, append(consume, "sqlite:"+newest, "--newest-first")...)
	if err != nil {
		return err
	}
	first, err := b.waitForRows(newest, p)
	if err := errors.Join(err, p.wait()); err != nil {
		return err
	}
	ours, done := first.Sub(start), time.Since(start)
	_, other, err := b.run(nil, b.feedctl, append(consume, "sqlite:"+ordered)...)
	if err != nil {
		return err
	}
	count := float64(entities)
	b.report.add(fmt.Sprintf("newest %d of %d into SQLite", newestWanted, entities), "s", ours.Seconds(), other.Seconds(), "all in order", atMost(2))
	b.report.add("consume newest first into SQLite", "rows/s", count/done.Seconds(), count/other.Seconds(), "in order", noTarget())
	b.reportMemory("consume newest first into SQLite", p)
	return errors.Join(os.Remove(newest), os.Remove(ordered))
}

// waitForRows waits until the newest rows are in the table of a sink, and returns the time.
func (b *bench) waitForRows(file string, p *process) (time.Time, error) {
	var conn *sqlite.Conn
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case <-b.ctx.Done():
			return time.Time{}, b.ctx.Err()
		case <-tick.C:
		}
		if _, err := memoryOf(p.cmd.Process.Pid, "VmHWM"); err != nil { // the process has ended
			return time.Now(), nil
		}
		if conn == nil {
			var err error
			if conn, err = sqlite.OpenConn(file, sqlite.OpenReadOnly); err != nil {
				continue // the database does not exist yet
			}
			defer conn.Close()
		}
		rows := 0
		err := sqlitex.Execute(conn, "SELECT count(*) FROM (SELECT 1 FROM entities LIMIT ?)", &sqlitex.ExecOptions{
			Args:       []any{newestWanted},
			ResultFunc: func(row *sqlite.Stmt) error { rows = row.ColumnInt(0); return nil },
		})
		if err == nil && rows == newestWanted {
			return time.Now(), nil
		}
	}
}
