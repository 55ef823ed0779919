package actions_test

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/console"
	"github.com/feedctl/feedctl/internal/actions"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/storage/stores"
)

// newEnv returns an environment for a command. It is closed at the end of the test.
func newEnv(t *testing.T) *task.Env {
	e := &task.Env{Log: slog.New(slog.DiscardHandler), Transport: http.DefaultTransport}
	t.Cleanup(func() {
		if err := e.Close(nil); err != nil {
			t.Error(err)
		}
	})
	return e
}

// jobsOf returns the actions that a node offers for jobs.
func jobsOf(node string) *actions.Jobs {
	return &actions.Jobs{Node: node, Runner: actions.Runner{Log: slog.New(slog.DiscardHandler), Transport: http.DefaultTransport}}
}

// only returns the only action that is offered for a job.
func only(t *testing.T, d *jobs.Document) console.Action {
	t.Helper()
	offered := jobsOf("node").Offered(d)
	if len(offered) != 1 {
		t.Fatalf("%d actions are offered for %+v", len(offered), d)
	}
	return offered[0]
}

// TestRetryQuarantine: the action publishes what a bridge has put into quarantine, using the
// credential of the bridge's job.
func TestRetryQuarantine(t *testing.T) {
	t.Setenv("COUCH_LOGIN", "basic ann:hunter2")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	fake := couchtest.NewFake(t)
	db := fake.NewDB(t)
	fake.AddDoc(db, "small", "{}")
	fake.AddDoc(db, "large", fmt.Sprintf(`{"x":%q}`, strings.Repeat("x", 2000)))
	target := "file:" + filepath.Join(t.TempDir(), "store") + "#docs"
	bridge := &task.BridgeCouchDB{}
	bridge.Flags(pflag.NewFlagSet("", pflag.ContinueOnError)) // sets the defaults
	bridge.Feed, bridge.Source.URL, bridge.Source.MaxDocument = target, db, 1000
	if _, err := bridge.Run(t.Context(), newEnv(t)); err != nil {
		t.Fatal(err)
	}
	fake.Require(couchtest.Credentials{User: "ann", Password: "hunter2"})
	d := &jobs.Document{
		Namespace: "shop", Name: "docs", Kind: "bridge couchdb", Source: db, Target: target, Follow: true,
		Placement: jobs.Placement{Node: "node"}, Credentials: map[string]string{"source": "env:COUCH_LOGIN"},
	}
	a := only(t, d)
	if want := `FEEDCTL_CREDENTIALS="$COUCH_LOGIN" feedctl bridge quarantine '` + target + `' --retry ` + db; a.Command != want {
		t.Errorf("the command is %s, want %s", a.Command, want)
	}
	if result := run(t, a, nil); result.Summary != "published 1 entity; 1 taken out of quarantine, 0 left" {
		t.Errorf("the result: %+v", result)
	}
	d.Credentials["source"] = "env:MISSING_LOGIN"
	if _, err := only(t, d).Run(t.Context(), func(string) {}); err == nil || !strings.Contains(err.Error(), "MISSING_LOGIN") {
		t.Errorf("without the credential: %v", err)
	}
}

// TestReconcile: the action compares a sink with its feed, first unchanged and then after a row was
// deleted.
func TestReconcile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := "file:" + filepath.Join(dir, "store")
	store, err := stores.Open(t.Context(), name, stores.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	publish(t, store, "zones", 5)
	d := &jobs.Document{
		Namespace: "shop", Name: "table", Kind: "consume", Source: name + "#zones", Target: "sqlite:" + filepath.Join(dir, "copy.db") + "?table=zones", Follow: true,
		Placement: jobs.Placement{Node: "node"},
	}
	copied := &task.Consume{Feed: d.Source, Into: d.Target, From: "beginning", OnGap: "fail"}
	if _, err := copied.Run(t.Context(), newEnv(t)); err != nil {
		t.Fatal(err)
	}
	a := only(t, d)
	if want := "feedctl reconcile '" + d.Source + "' --into '" + d.Target + "'"; a.Command != want {
		t.Errorf("the command is %s, want %s", a.Command, want)
	}
	if result, err := a.Run(t.Context(), func(string) {}); err == nil || !strings.Contains(result.Remedy, "feedctl digest") {
		t.Errorf("without a state digest: %v, try %s", err, result.Remedy)
	}
	digest := &task.MakeDigest{Feed: d.Source}
	if _, err := digest.Run(t.Context(), newEnv(t)); err != nil {
		t.Fatal(err)
	}
	if result := run(t, only(t, d), nil); result.Summary != "3 rows compared: equal" || len(result.Findings) > 0 {
		t.Errorf("the result: %+v", result)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "copy.db")) // uses the driver that is registered for the database of jobs
	if err == nil {
		_, err = db.ExecContext(t.Context(), "DELETE FROM zones WHERE key = 'k1'")
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if result := run(t, only(t, d), nil); result.Summary != "2 rows compared: 1 difference" || len(result.Findings) != 1 || !strings.Contains(result.Findings[0], "k1") {
		t.Errorf("the result: %+v", result)
	}
}

// TestOffered: no action is offered for some kinds of jobs, for invalid jobs, and for jobs with
// files on another node.
func TestOffered(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]jobs.Document{
		"files of another node": {Kind: "consume", Source: "https://feeds.example.org/feeds/a", Target: "sqlite:/a.db?table=t", Placement: jobs.Placement{Node: "other"}},
		"a bucket":              {Kind: "bridge kinto", Source: "https://kinto.example.org/v1/buckets/b", Target: "s3://bucket/prefix#f-*"},
		"a check":               {Kind: "verify", Source: "https://feeds.example.org/feeds/a"},
		"an unknown kind":       {Kind: "dance"},
		"an invalid document":   {Kind: "consume", Source: "nonsense:"},
	} {
		d.Namespace, d.Name = "n", "j"
		if offered := jobsOf("node").Offered(&d); len(offered) > 0 {
			t.Errorf("%s: %s is offered", name, offered[0].Command)
		}
	}
}
