// Package pgposition manages the position of a consumer in PostgreSQL: its row in the table
// feedctl_positions, the advisory lock against a second consumer, and the connection that
// holds the lock and writes.
package pgposition

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/position"
)

// A Keeper manages the position of one consumer.
type Keeper struct {
	// Schema contains the tables. If empty, [Keeper.SetUp] sets it to the first schema of the search_path.
	Schema string
	// Table is the table that the consumer writes; empty for custom tables.
	Table string
	// Name distinguishes consumers of a table.
	Name string
	Log  *slog.Logger
	// Before, if not nil, is called before each request to the server, for tests.
	Before func() error
	// Writer is the connection to write with.
	Writer Link

	holder  Link      // holds the lock; used only through a pooler
	locked  *pgx.Conn // Writer.Conn when the lock was taken, or nil
	owner   string    // names this keeper in the row
	commits int64     // in the row
}

// New returns a keeper that connects with dial.
func New(schema, table, name string, log *slog.Logger, dial func(context.Context) (*pgx.Conn, error)) Keeper {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return Keeper{Schema: schema, Table: table, Name: name, Log: log, Writer: Link{Dial: dial}, holder: Link{Dial: dial}, owner: rand.Text()}
}

// errTakenOver means that the consumer lost its lock to another, or that its position was
// changed by hand or by a restore of the database.
var errTakenOver = fmt.Errorf("the position is not the one that this consumer wrote: %w", sink.ErrLocked)

// String returns the consumer's name for errors.
func (k *Keeper) String() string {
	if k.Table == "" {
		return fmt.Sprintf("name %q", k.Name)
	}
	return fmt.Sprintf("table %s, name %q", k.quoted(k.Table), k.Name)
}

func (k *Keeper) quoted(table string) string { return pgx.Identifier{k.Schema, table}.Sanitize() }

// Step must be called before each request to the server.
func (k *Keeper) Step() error {
	if k.Before == nil {
		return nil
	}
	return k.Before()
}

// sql returns a statement on the table of positions.
func (k *Keeper) sql(statement string) string {
	return fmt.Sprintf(statement, k.quoted(position.Table))
}

// Connect restores the connection to write with, and the lock, if they were lost. The server
// may not have noticed yet that the connection with the lock is gone: while no one else owns
// the position, the sink can do without the lock.
func (k *Keeper) Connect(ctx context.Context) error {
	if err := k.Writer.Connect(ctx); err != nil {
		return err
	}
	if k.locked == k.Writer.Conn {
		return nil
	}
	if err := k.lock(ctx); err != nil && !errors.Is(err, sink.ErrLocked) {
		return err
	}
	return k.Writer.Connect(ctx) // closed if it failed to take the lock
}

const recoverWait = time.Minute

// Recover takes the lock and the ownership of the position, and returns the position. The
// previous owner can no longer commit.
func (k *Keeper) Recover(ctx context.Context) (at feed.Position, err error) {
	ctx, cancel := context.WithTimeout(ctx, recoverWait)
	defer cancel()
	var text string
	err = k.Retry(ctx, func() (err error) {
		if err = k.Writer.Connect(ctx); err == nil {
			err = k.lock(ctx)
		}
		if err == nil {
			text, err = k.take(ctx)
		}
		if err != nil {
			_ = k.Writer.Close() // err says why
		}
		return err
	})
	if err != nil {
		return at, err
	}
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		return at, fmt.Errorf("read position: %w", err)
	}
	return at, nil
}

// take makes the keeper the owner of the position.
func (k *Keeper) take(ctx context.Context) (at string, err error) {
	if err := k.Step(); err != nil {
		return "", err
	}
	err = k.Writer.Conn.QueryRow(ctx, k.sql(position.PostgresTake), k.Table, k.Name, k.owner).Scan(&at, &k.commits)
	return at, k.gone(err)
}

func (k *Keeper) gone(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("the row of %s is gone from %s", k, k.quoted(position.Table))
	}
	return err
}

// Committed reports whether a transaction with an unknown outcome was committed. It waits
// for the end of the transaction.
func (k *Keeper) Committed(ctx context.Context) (bool, error) {
	if err := k.Step(); err != nil {
		return false, err
	}
	var owner string
	var commits int64
	err := k.Writer.Conn.QueryRow(ctx, k.sql("SELECT owner, commits FROM %s WHERE table_name = $1 AND name = $2 FOR UPDATE"), k.Table, k.Name).
		Scan(&owner, &commits)
	if err != nil {
		return false, k.gone(err)
	}
	if owner != k.owner || commits != k.commits && commits != k.commits+1 {
		return false, errTakenOver
	}
	return commits == k.commits+1, nil
}

// Move returns the statement that moves the position within a transaction. [Moved] checks its
// result, and [Keeper.Done] must be called when the transaction has been committed.
func (k *Keeper) Move(at string) (sql string, args []any) {
	return k.sql(position.PostgresMove), []any{k.Table, k.Name, k.owner, k.commits, at}
}

// Moved returns an error if the statement of [Keeper.Move] found another owner.
func Moved(tag pgconn.CommandTag) error {
	if tag.RowsAffected() != 1 {
		return errTakenOver
	}
	return nil
}

// Done records that the transaction was committed.
func (k *Keeper) Done() { k.commits++ }

// Close closes the connections, which releases the lock.
func (k *Keeper) Close() error { return errors.Join(k.Writer.Close(), k.holder.Close()) }
