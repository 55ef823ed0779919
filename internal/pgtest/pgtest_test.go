package pgtest_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/pgtest"
)

func query(t *testing.T, url, sql string, args ...any) (value string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	args = append([]any{pgx.QueryExecModeExec}, args...)
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestDatabases(t *testing.T) {
	server := pgtest.Start(t)
	a, b := server.URL("a"), server.URL("b")
	if a == b || server.URL("a") != a {
		t.Errorf("URLs of databases: %s, %s, %s", a, b, server.URL("a"))
	}
	query(t, a, "WITH x AS (SELECT set_config('a.b', 'c', false)) SELECT * FROM x")
	through := pgtest.PgBouncer(t, server, "a")
	if got, want := query(t, through, "SELECT current_database()"), query(t, a, "SELECT current_database()"); got != want {
		t.Errorf("PgBouncer leads to database %q, want %q", got, want)
	}
}

func TestRestart(t *testing.T) {
	server := pgtest.StartOwn(t, "fsync=on")
	url := server.URL("a")
	if got := query(t, url, "SHOW fsync"); got != "on" {
		t.Errorf("fsync is %s", got)
	}
	query(t, url, "WITH x AS (SELECT lo_from_bytea(4711, 'kept')) SELECT 'made' FROM x")
	server.Restart()
	server.Kill()
	server.Start()
	if got := query(t, url, "SELECT encode(lo_get(4711), 'escape')"); got != "kept" {
		t.Errorf("after a crash: %q", got)
	}
}

// childVariable is set in the environment of a process that is to be killed.
const childVariable = "FEEDCTL_PGTEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	server, err := pgtest.New()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	url, err := server.Database("a")
	fmt.Println(url, err)
	_, _ = io.Copy(io.Discard, os.Stdin) // there is no input: blocks until the process is killed
}

// TestKilled: neither the server nor its directories outlive a killed process.
func TestKilled(t *testing.T) {
	dir, err := os.MkdirTemp("", "killed-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // the server's user also removes directories from it
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1", "TMPDIR="+dir)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // the pipe stays open
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var url string
	if _, err := fmt.Sscanf(line, "%s <nil>", &url); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	// The connection ends with the server.
	if _, err := conn.Exec(t.Context(), "SELECT pg_sleep(1000)"); err == nil {
		t.Error("the server is still running")
	}
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) == 0 {
			break
		}
	}
}
