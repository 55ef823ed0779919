// Package clients tests the programs in other languages in docs/postgres.md, with these
// languages' usual drivers, against a server.
package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/schema"
)

// TestSnippets runs the two documented programs for each language: one calls feedctl.publish in a
// transaction, the other inserts a row in a transaction.
func TestSnippets(t *testing.T) {
	server := pgtest.Start(t)
	documentation, err := os.ReadFile("../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	drivers := install(t)
	for _, language := range []string{"Python", "Node", "Java"} {
		database := server.URL("clients_" + strings.ToLower(language))
		address := overTCP(t, database)
		program := write(t, language, snippets(t, string(documentation), language))
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			conn := prepare(t, database)
			cmd := command(t.Context(), language, drivers, program)
			cmd.Args = append(cmd.Args, address)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			check(t, conn)
		})
	}
}

// install returns the directories of the drivers.
func install(t *testing.T) (directories []string) {
	t.Helper()
	cmd := exec.Command("../../scripts/install-clients")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("install drivers: %v: %s", err, &stderr)
	}
	return strings.Fields(string(out))
}

// command runs a program with the driver of its language.
func command(ctx context.Context, language string, drivers []string, program string) *exec.Cmd {
	switch language {
	case "Python":
		cmd := exec.CommandContext(ctx, "python3", program)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+drivers[0])
		return cmd
	case "Node":
		cmd := exec.CommandContext(ctx, "node", program)
		cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(drivers[1], "node_modules"))
		return cmd
	default:
		return exec.CommandContext(ctx, "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", filepath.Join(drivers[2], "postgresql.jar"), program)
	}
}

// snippets returns the two programs that follow the name of a language.
func snippets(t *testing.T, documentation, language string) map[string]string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + language + ` \(.*\n\n((?:    .*\n)+)\n.*\n\n((?:    .*\n)+)`).FindStringSubmatch(documentation)
	if found == nil {
		t.Fatalf("the documentation does not have two programs for %s", language)
	}
	for _, program := range found[1:] {
		if n := strings.Count(program, "\n"); n > 5 {
			t.Errorf("%d lines for %s, want 5 at most:\n%s", n, language, program)
		}
	}
	outdent := regexp.MustCompile(`(?m)^    `)
	return map[string]string{"publish": outdent.ReplaceAllString(found[1], ""), "insert": outdent.ReplaceAllString(found[2], "")}
}

// write writes a complete program that contains the two snippets.
func write(t *testing.T, language string, snippets map[string]string) string {
	t.Helper()
	frame, err := os.ReadFile(filepath.Join("testdata", language))
	if err != nil {
		t.Fatal(err)
	}
	text := string(frame)
	for name, snippet := range snippets {
		text = strings.Replace(text, "SNIPPET "+name+"\n", snippet, 1)
	}
	file := filepath.Join(t.TempDir(), map[string]string{"Python": "client.py", "Node": "client.js", "Java": "Client.java"}[language])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// prepare creates the outbox and the table that the programs write to.
func prepare(t *testing.T, database string) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(database)
	if err == nil {
		err = schema.Create(t.Context(), config, schema.Default)
	}
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), `CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, total numeric)`); err != nil {
		t.Fatal(err)
	}
	return conn
}

// check checks that each program has inserted an order and published it.
func check(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	var orders int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM orders WHERE total = 12.5`).Scan(&orders); err != nil || orders != 2 {
		t.Errorf("%d orders, %v; want 2", orders, err)
	}
	type event struct {
		Feed, Key, Op, ContentType string
		Body                       map[string]float64
	}
	rows, err := conn.Query(t.Context(), `SELECT feed, key, op, content_type, body FROM feedctl.outbox ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e event, err error) {
		var body []byte
		if err = row.Scan(&e.Feed, &e.Key, &e.Op, &e.ContentType, &body); err == nil {
			err = json.Unmarshal(body, &e.Body)
		}
		return e, err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []event{
		{"orders", "1", "PUT", "application/json", map[string]float64{"id": 1, "total": 12.5}},
		{"orders", "2", "PUT", "application/json", map[string]float64{"id": 2, "total": 12.5}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// overTCP returns a TCP URL of the database: some drivers do not support Unix sockets, on
// which the test's server listens.
func overTCP(t *testing.T, database string) string {
	t.Helper()
	config, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	network, address := listens(config)
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go forward(from, network, address)
		}
	}()
	u := url.URL{Scheme: "postgresql", Host: l.Addr().String(), Path: "/" + config.Database}
	u.RawQuery = url.Values{"user": {config.User}, "password": {config.Password}}.Encode()
	return u.String()
}

func listens(config *pgx.ConnConfig) (network, address string) {
	if strings.HasPrefix(config.Host, "/") {
		return "unix", filepath.Join(config.Host, fmt.Sprint(".s.PGSQL.", config.Port))
	}
	return "tcp", net.JoinHostPort(config.Host, fmt.Sprint(config.Port))
}

// forward copies in both directions until one side ends.
func forward(from net.Conn, network, address string) {
	defer from.Close()
	to, err := net.DialTimeout(network, address, 10*time.Second)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}
