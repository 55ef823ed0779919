package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs/kinds"
)

// TestJobExamples runs the files in examples/jobs, one for each kind of job, in one process. The servers in these files
// are replaced with a CouchDB-compatible server, Kinto, PostgreSQL and a server of feeds.
func TestJobExamples(t *testing.T) {
	t.Parallel() // the test mostly waits for reports
	dir := t.TempDir()
	store, ready := "file:"+filepath.Join(dir, "store"), filepath.Join(dir, "url")
	couch, db := couchtest.NewDB(t), pgtest.StartOwn(t).URL("shop")
	couchtest.Send(t, http.MethodPut, couch+"/1", `{"item":"tea"}`)
	records := kintotest.Start(t, kintotest.Memory).NewCollection(t)
	kintotest.Send(t, http.MethodPut, records+"/records/1", `{"data":{"name":"Ada"}}`)
	exec := func(sql string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TABLE products (id bigint PRIMARY KEY, name text)")
	feedctl(t, "outbox", "attach", "--db", db, "--table", "products", "--feed", "products")
	exec("INSERT INTO products VALUES (1, 'tea'), (2, 'coffee')")
	feedctl(t, "init", store)
	server := &process{t: t, name: "serve", args: []string{"serve", "--store", store, "--listen", "127.0.0.1:0", "--ready-file", ready}}
	server.start()
	defer server.kill(os.Kill)
	waitFor(t, server.stderr.String, func() bool { _, err := os.Stat(ready); return err == nil })
	address, err := os.ReadFile(ready)
	if err != nil {
		t.Fatal(err)
	}
	password, user := filepath.Join(dir, "shop-password"), filepath.Join(dir, "kinto-user")
	for name, text := range map[string]string{password: "not asked for\n", user: "basic " + kintotest.User + ":" + kintotest.Password} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sink := strings.Replace(db, "?", "?table=public.orders&", 1)
	local := strings.NewReplacer("follow: true", "follow: true\n    backoff: {min: 1s, max: 1s}", // the consumer may run before the bridge
		"    credentials: {source: \"env:ORDERS_READER\"}", "", "env:CUSTOMERS_READER", "file:"+user,
		"https://kinto.example.org/v1/buckets/shop/collections/customers", records, "https://couch.example.org/orders", couch, "s3://bucket/feeds", store, "https://data.example.org", strings.TrimSpace(string(address)),
		"postgres://shop@db.example.org/shop?table=public.orders", sink, "postgres://shop@db.example.org/shop", db, "/etc/feedctl/shop-password", password)
	files, err := filepath.Glob("../examples/jobs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		feedctl(t, "jobs", "validate", "-f", file)
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(local.Replace(string(text))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	jobs := "--db=sqlite:" + filepath.Join(dir, "jobs.db")
	node := &process{t: t, name: "standalone", args: []string{"jobs", "standalone", "-f", dir, jobs}}
	node.start()
	waitFor(t, node.stderr.String, func() bool {
		return strings.Contains(node.stderr.String(), fmt.Sprint(len(files), " jobs created"))
	})
	list := func() (succeeded map[string]bool) {
		t.Helper()
		var l struct {
			Jobs []struct {
				Document struct{ Name, Kind string }
				Stats    struct{ Entities int64 }
			}
		}
		if err := json.Unmarshal([]byte(feedctl(t, "jobs", "list", jobs, "--json")), &l); err != nil {
			t.Fatal(err)
		}
		succeeded = map[string]bool{}
		for _, j := range l.Jobs {
			succeeded[j.Document.Kind] = j.Stats.Entities > 0
		}
		return succeeded
	}
	has := list()
	for kind := range kinds.All() {
		if _, ok := has[kind]; !ok {
			t.Fatalf("there is no example of kind %q", kind)
		}
	}
	where := func() string { return feedctl(t, "jobs", "list", jobs) + node.stderr.String() }
	// Runs report every 10 seconds.
	waitForCommand(t, where, func() bool {
		have := list()
		return have["bridge couchdb"] && have["bridge kinto"] && have["outbox run"] && have["consume"]
	})
	feedctl(t, "retain", store+"#orders", "--keep-age", "30d", "--snapshot-every", "1d", "--keep-snapshots", "3")
	feedctl(t, "jobs", "restart", "--all", "-n", "shop", "--state", "pending", jobs) // do not wait for their schedules, which are at night
	for _, job := range []string{"shop/orders-snapshot", "shop/orders-prune", "shop/orders-retain", "shop/orders-verify"} {
		waitForCommand(t, where, func() bool { return strings.Contains(feedctl(t, "jobs", "history", job, jobs), "completed") })
	}
	if out := feedctl(t, "jobs", "list", jobs, "--state", "crashing,failed"); !strings.HasPrefix(out, "0 jobs") {
		t.Errorf("%s%s", out, node.stderr)
	}
	node.kill(syscall.SIGTERM)
	if out := feedctl(t, "inspect", store+"#products", "--json"); !strings.Contains(out, `"products"`) {
		t.Error(out)
	}
	exec("SELECT 1 / count(*) FROM orders") // an error if the table is empty
}
