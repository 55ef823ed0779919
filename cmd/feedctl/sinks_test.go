package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/task"
)

// TestConsumePostgres copies a feed into columns of a table. Unsuitable entities are
// quarantined, or end the command.
func TestConsumePostgres(t *testing.T) {
	store := "file:" + filepath.Join(t.TempDir(), "store") + "#zones"
	database := pgtest.Start(t).URL("a") + "&password=secret"
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	value := func(query string) (text string) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), query).Scan(&text); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return text
	}
	mustRun(t, zones+`{"name":"Nowhere","offset":"?"}`+"\n", "publish", store, "--key", "/name")

	columns := []string{"--columns", "name=@key:text,hours=/offset:numeric(3,1) not null"}
	consume := func(table string, more ...string) []string {
		return append(append([]string{"consume", store, "--into", database + "&table=" + table}, columns...), more...)
	}
	got := mustRun(t, "", consume("zones")...)
	if !strings.HasPrefix(got, "consumed 4 entities into ") || !strings.HasSuffix(got, ", 1 of them into quarantine\n") || strings.Contains(got, "secret") {
		t.Errorf("printed %q", got)
	}
	if got := value("SELECT string_agg(name || ' ' || hours, ', ' ORDER BY name COLLATE \"C\") FROM zones"); got != "Asia/Kolkata 5.5, Europe/Zürich 1.0, UTC 0.0" {
		t.Errorf("the table has %s", got)
	}
	if got := value("SELECT key || ': ' || reason FROM feedctl_quarantine"); got != `Nowhere: invalid input syntax for type numeric: "?"` {
		t.Errorf("quarantine has %s", got)
	}
	var result task.Consumed
	if err := json.Unmarshal([]byte(mustRun(t, "", consume("again", "--json")...)), &result); err != nil {
		t.Fatal(err)
	}
	if result.Entities != 4 || result.Quarantined != 1 || strings.Contains(result.Into, "secret") {
		t.Errorf("result is %+v", result)
	}

	code, _, stderr := feedctl(t, "", consume("strict", "--strict")...)
	if code != exit.Error || !strings.Contains(stderr, `with key "Nowhere"`) || strings.Contains(stderr, "secret") {
		t.Errorf("strict: exit status %d\n%s", code, stderr)
	}
	if got := value("SELECT count(*) || ' ' || (SELECT position FROM feedctl_positions WHERE table_name = 'strict') FROM strict"); got != "0 {}" {
		t.Errorf("strict: the table has %s", got)
	}
}

func TestInvalidSinks(t *testing.T) {
	store := "file:" + filepath.Join(t.TempDir(), "store") + "#zones"
	mustRun(t, zones, "publish", store, "--key", "/name")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--into", "jsonl:out", "--columns", "v=/v:int"}, "in PostgreSQL"},
		{[]string{"--into", "sqlite:out.db", "--strict"}, "in PostgreSQL"},
		{[]string{"--into", "couchdb:h/d"}, "sink couchdb:h/d: want couchdb:http://HOST:PORT/DATABASE"},
		{[]string{"--into", "couchdb:localhost:5984/d"}, "sink couchdb:localhost:5984/d: want couchdb:http://"},
		{[]string{"--into", "couchdb:ann:secret@h/d"}, "sink couchdb:ann:xxxxx@h/d: want couchdb:http://"},
		{[]string{"--into", "couchdb:http://h"}, "open sink couchdb:http://h: invalid sink"},
		{[]string{"--into", "couchdb:http://[::1/d"}, "open sink couchdb:http://[::1/d: invalid sink"},
		{[]string{"--into", "couchdb:http://ann:se cret@h/d"}, "open sink couchdb:http://ann:xxxxx@h/d: "},
		{[]string{"--into", "postgres://ann:secret@h/d"}, "table is missing"},
		{[]string{"--into", "postgres://ann:secret@h/d?table=a.b.c"}, "SCHEMA.TABLE"},
		{[]string{"--into", "postgres://ann:secret@h/d?table=t&columns=v=/v:int", "--columns", "v=/v:int"}, "twice"},
		{[]string{"--into", "postgres://ann:secret@h/d?table=t", "--columns", "v=/v"}, "NAME=POINTER:TYPE"},
		{[]string{"--into", "postgres://ann:se cret@h/d?table=t", "--columns", "v=/v:int"}, "database URL"},
	} {
		code, _, stderr := feedctl(t, "", append([]string{"consume", store}, c.args...)...)
		if code != exit.Usage || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "cret") {
			t.Errorf("%v: exit status %d, want %d and %q\n%s", c.args, code, exit.Usage, c.want, stderr)
		}
	}
}
