// Package schema creates and migrates what feedctl keeps in a PostgreSQL database:
// the tables of package storage/postgres and all else, in one schema and with one
// version.
//
// # Versions
//
// The version of a schema is the number of its last migration. Only [Migrate] changes
// it, and [Create] makes a schema where there is none, of the newest version. All else
// works with a schema as it is, or says what to do.
//
// An older schema can be used as long as it has what the program needs: this one reads
// objects in any version, and writes them, and works with the outbox, from version 4 on,
// see [Use]. A new migration must leave the programs that know the version before it
// able to read and write, and the program that brings it must work without it, so that
// servers, publishers and the database are updated in any order.
//
// A newer schema says for itself which programs can still use it: Create and Migrate
// record, beside its version, the oldest version that a program must know to read
// (min_read), and to write (min_write). A program that knows an older one refuses with
// an error that matches storage.ErrLayout, as do those from before this rule, which
// know version 4 and need exactly that.
package schema

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/suggest"
)

// Default is the name of the schema if none is given.
const Default = "feedctl"

// MinServer is the oldest major version of PostgreSQL that is supported.
const MinServer = 14

// versionTable holds, in one row, the number of the last migration that was
// applied.
const versionTable = "schema_version"

// The migrations are applied in the order of their numbers, all that are missing in
// one transaction, as templates with the name of the schema: {{.schema}}.
//
//go:embed sql/*.sql
var files embed.FS

var validName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

// CheckName returns an error unless name can be that of the schema: a-z, 0-9 and
// "_", at most 48 of them, not a digit first, not beginning with "pg_". Such a name
// needs no quotes and leaves room for the names of channels that begin with it.
func CheckName(name string) error {
	if !validName.MatchString(name) || strings.HasPrefix(name, "pg_") {
		return fmt.Errorf("invalid schema %q: want up to 48 of a-z 0-9 _, not a digit first, not pg_", name)
	}
	return nil
}

// Cut takes the parameter "schema" out of a database URL, since the rest belongs to
// the client library. Without it the name is [Default].
func Cut(u *url.URL) (rest *url.URL, name string, err error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, "", fmt.Errorf("parameters of the database URL: %w", err)
	}
	name = Default
	if query.Has("schema") {
		name = query.Get("schema")
		query.Del("schema")
	}
	if err := CheckName(name); err != nil {
		return nil, "", err
	}
	for _, other := range slices.Sorted(maps.Keys(query)) { // which PostgreSQL would refuse
		if question := suggest.DidYouMean(other, []string{"schema"}, ""); question != "" {
			return nil, "", fmt.Errorf("unknown parameter %q%s", other, question)
		}
	}
	cut := *u
	cut.RawQuery = query.Encode()
	return &cut, name, nil
}

// migrations are those that this program knows.
type migrations struct {
	sql    fs.FS
	names  []string // "001_store.sql" and so on
	newest int32
}

func known() (*migrations, error) {
	sql, err := fs.Sub(files, "sql")
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(sql, "*.sql") // in the order of their numbers
	if err != nil {
		return nil, err
	}
	return &migrations{sql, names, int32(len(names))}, nil
}

// visit calls do with a connection of its own. Its errors say which schema they are
// about. They match storage.ErrUnavailable if the server does not answer, or not yet,
// and storage.ErrPermission for lack of rights.
func visit(ctx context.Context, config *pgx.ConnConfig, name string, do func(*pgx.Conn, *migrations) error) (err error) {
	if err := CheckName(name); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("schema %q of database %q: %w", name, config.Database, unavailable(err))
		}
	}()
	m, err := known()
	if err != nil {
		return err
	}
	config = config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // leaves nothing behind in a shared session
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return do(conn, m)
}

// Check returns an error unless the schema can be used as it is: one that matches
// storage.ErrNoStore if there is none, or storage.ErrLayout if it is too old or too
// new. It writes nothing, and needs no right but to read.
func Check(ctx context.Context, config *pgx.ConnConfig, name string, use Use) error {
	return visit(ctx, config, name, func(conn *pgx.Conn, m *migrations) error {
		s, err := current(ctx, conn, name)
		if err != nil {
			return err
		}
		return s.allow(use, m.newest)
	})
}

// Create is Check for [Write], but makes the schema, and its tables, if there are none.
// Any number of processes may do it at a time: it is one transaction, under a lock that
// ends with it, so also through a PgBouncer in transaction mode.
func Create(ctx context.Context, config *pgx.ConnConfig, name string) error {
	return visit(ctx, config, name, func(conn *pgx.Conn, m *migrations) error {
		s, err := current(ctx, conn, name)
		if err != nil {
			return err
		}
		isNew := func(s state) bool { return s.Version == 0 }
		if isNew(s) {
			if err := fit(ctx, conn); err != nil {
				return err
			}
			if _, s, err = apply(ctx, conn, name, m, isNew); err != nil {
				return err
			}
		}
		return s.allow(Write, m.newest)
	})
}

// A Migration is a step from one version to the next.
type Migration struct {
	Version int32
	Name    string // such as "004_write.sql"
	SQL     string
}

// A Plan is what Migrate does, or has done.
type Plan struct {
	From, To int32
	Steps    []Migration
}

// Migrate brings a schema that exists to the newest version, all of it in one
// transaction, as [Create] does; with dryRun it only returns what it would do. One that
// is newer already is left alone, if this program can write to it.
func Migrate(ctx context.Context, config *pgx.ConnConfig, name string, dryRun bool) (plan Plan, err error) {
	err = visit(ctx, config, name, func(conn *pgx.Conn, m *migrations) error {
		s, err := current(ctx, conn, name)
		if err != nil {
			return err
		}
		if s.Version == 0 || s.Version >= m.newest {
			plan.From, plan.To = s.Version, s.Version
			return s.allow(Write, m.newest)
		}
		if !dryRun {
			if err := fit(ctx, conn); err != nil {
				return err
			}
			if s, _, err = apply(ctx, conn, name, m, func(s state) bool { return s.Version > 0 }); err != nil {
				return err
			}
		}
		plan, err = m.plan(s.Version, name)
		return err
	})
	return plan, err
}

// plan returns the steps from a version to the newest.
func (m *migrations) plan(from int32, name string) (Plan, error) {
	plan := Plan{From: from, To: max(from, m.newest)}
	for version := from + 1; version <= m.newest; version++ {
		file := m.names[version-1]
		text, err := fs.ReadFile(m.sql, file)
		if err != nil {
			return Plan{}, err
		}
		plan.Steps = append(plan.Steps, Migration{version, file, strings.ReplaceAll(string(text), "{{.schema}}", name)})
	}
	return plan, nil
}
