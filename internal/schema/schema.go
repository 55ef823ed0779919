// Package schema creates and migrates the schema in which feedctl keeps all its tables
// in a PostgreSQL database.
//
// # Versions
//
// The version of a schema is the number of its last migration. Only [Migrate] changes
// it. [Create] creates a schema of the newest version if there is none. Everything else
// uses the schema unchanged, or returns an error with the remedy.
//
// An older schema can be used if it has what the program needs: this program can read
// objects in any version, and write them and use the outbox from version 4; see [Use]. A
// new migration must not break programs that know the version before it, and the program
// that introduces it must work without it, so that servers, publishers and the database
// can be updated in any order.
//
// A newer schema states which programs can still use it: Create and Migrate record the
// oldest version that a program must know to read (min_read) and to write (min_write).
// A program that knows only older versions returns an error that matches
// storage.ErrLayout, as do the programs from before this rule, which require exactly
// version 4.
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

// minServer is the oldest major version of PostgreSQL that is supported.
const minServer = 14

// versionTable is the table that holds, in one row, the number of the last migration that was applied.
const versionTable = "schema_version"

// The migrations are applied in the order of their numbers, all missing ones in one transaction.
// They are templates in which {{.schema}} stands for the name of the schema.
//
//go:embed sql/*.sql
var files embed.FS

var validName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

// CheckName returns an error unless name is a valid name of the schema: at most 48
// characters of a-z, 0-9 and "_", not beginning with a digit or "pg_". Such a name
// needs no quotes and leaves room for the names of channels that begin with it.
func CheckName(name string) error {
	if !validName.MatchString(name) || strings.HasPrefix(name, "pg_") {
		return fmt.Errorf("invalid schema %q: want up to 48 of a-z 0-9 _, not a digit first, not pg_", name)
	}
	return nil
}

// Cut removes the parameter "schema" from a database URL; the rest is for the client
// library. Without the parameter, the name is [Default].
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
	for _, other := range slices.Sorted(maps.Keys(query)) { // PostgreSQL would refuse these
		if question := suggest.DidYouMean(other, []string{"schema"}, ""); question != "" {
			return nil, "", fmt.Errorf("unknown parameter %q%s", other, question)
		}
	}
	cut := *u
	cut.RawQuery = query.Encode()
	return &cut, name, nil
}

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

// visit calls do with a new connection. Its errors name the schema. They match
// [storage.ErrUnavailable] if the server does not respond or is not ready, and
// [storage.ErrPermission] if rights are missing.
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
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // this mode leaves nothing behind in a shared session
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return do(conn, m)
}

// Check returns an error unless the schema can be used without migration. The error
// matches [storage.ErrNoStore] if there is no schema, or [storage.ErrLayout] if it is too
// old or too new. Check writes nothing and only needs the right to read.
func Check(ctx context.Context, config *pgx.ConnConfig, name string, use Use) error {
	return visit(ctx, config, name, func(conn *pgx.Conn, m *migrations) error {
		s, err := current(ctx, conn, name)
		if err != nil {
			return err
		}
		return s.allow(use, m.newest)
	})
}

// Create is like [Check] for [Write], but creates the schema and its tables if they do not
// exist. Any number of processes may call it concurrently, even through PgBouncer in transaction
// mode: it is one transaction, under a lock that ends with the transaction.
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
	Version int32  `json:"version"`
	Name    string `json:"name"` // such as "004_write.sql"
	SQL     string `json:"-"`
}

// A Plan describes what [Migrate] would do, or has done.
type Plan struct {
	From  int32       `json:"from"`
	To    int32       `json:"to"`
	Steps []Migration `json:"steps"`
}

// Migrate migrates an existing schema to the newest version, in one transaction like
// [Create]; with dryRun it only returns the plan. A newer schema is left unchanged; it is
// an error if this program cannot write to it.
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
