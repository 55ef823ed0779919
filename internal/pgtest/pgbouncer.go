package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// pool is the number of connections from PgBouncer to the server. A test has more connections to PgBouncer, which
// therefore share these.
const pool = 10

// runPgBouncer is a script that runs PgBouncer until the script's standard input ends.
const runPgBouncer = `trap '' INT TERM HUP; "$1" "$2/pgbouncer.ini" >"$2/log" 2>&1 & cat >/dev/null; kill -KILL $!; wait $!; rm -rf "$2"`

// pgBouncer starts PgBouncer in front of the database at a URL, and returns the URL of the database
// through PgBouncer. Only the user of that URL may log in.
func (s *Server) pgBouncer(database string) (_ string, stop io.Closer, err error) {
	bouncer, err := program("pgbouncer", "pgbouncer")
	if err != nil {
		return "", nil, err
	}
	config, err := pgx.ParseConfig(database)
	if err != nil {
		return "", nil, err
	}
	password := ""
	if config.Password != "" { // PgBouncer rejects an empty password
		password = " password='" + strings.ReplaceAll(config.Password, "'", "''") + "'"
	}
	who, err := unprivileged()
	if err != nil {
		return "", nil, err
	}
	dir, err := who.tempDir()
	if err != nil {
		return "", nil, err
	}
	ini := fmt.Sprintf(`[databases]
%[1]s = host=%[2]s port=%[3]d dbname=%[1]s user=%[4]s%[5]s
[pgbouncer]
pool_mode = transaction
default_pool_size = %[6]d
max_client_conn = 1000
unix_socket_dir = %[7]s
listen_port = 6432
auth_type = any
ignore_startup_parameters = extra_float_digits
server_login_retry = 1
`, config.Database, config.Host, config.Port, config.User, password, pool, dir)
	if err := who.writeFile(filepath.Join(dir, "pgbouncer.ini"), ini); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop, err = who.background(dir, "sh", "-c", runPgBouncer, "sh", bouncer, dir)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	query := url.Values{"host": {dir}, "port": {"6432"}}
	u := &url.URL{Scheme: "postgres", User: url.User(config.User), Path: "/" + config.Database, RawQuery: query.Encode()}
	if err := answers(u.String()); err != nil {
		text, _ := os.ReadFile(filepath.Join(dir, "log")) // may not exist
		return "", nil, errors.Join(fmt.Errorf("PgBouncer does not respond: %w\n%s", err, text), stop.Close())
	}
	return u.String(), stop, nil
}

// answers waits until a server accepts connections.
func answers(database string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, database)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
