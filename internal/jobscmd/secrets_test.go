package jobscmd_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/api"
	"github.com/feedctl/feedctl/jobs/kinds"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/stores"
)

const secret = "hunter2+ü/%41"

// forms holds the forms in which the secret might appear.
var forms = []string{
	"hunter2", url.QueryEscape(secret), url.PathEscape(secret), base64.StdEncoding.EncodeToString([]byte("user:" + secret))[:12],
}

// A syncBuffer is a buffer for several writers.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// endings is an observer of jobs that sends the name of each job whose run has ended to a channel.
type endings struct {
	*metrics.Jobs
	ended chan string
}

func (e endings) Ended(d *jobs.Document, how string) {
	e.Jobs.Ended(d, how)
	select {
	case e.ended <- d.Name:
	default: // the test no longer reads the channel
	}
}

// noSecret fails the test if a string contains the secret.
func noSecret(t *testing.T, what, text string) {
	t.Helper()
	for _, form := range forms {
		if n := strings.Index(text, form); n >= 0 {
			t.Errorf("%s has the secret as %q: …%.300s…", what, form, text[max(0, n-200):])
		}
	}
}

// TestSecrets puts a secret into all places from which credentials may come, and into some from which they
// must not come. Servers refuse the secret in different ways, and send it back. Nothing that jobs store,
// log, print or send in responses may contain it.
func TestSecrets(t *testing.T) {
	m := newMachine(t)
	m.kinds = kinds.All()
	t.Setenv("SECRET_LOGIN", "basic user:"+secret)
	t.Setenv("SECRET_PASSWORD", secret)
	m.write("login", "basic user:"+secret+"\n")
	var asked sync.Map // the statuses of responses, each with what was requested
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		if password != secret {
			t.Errorf("%s has the password %q", r.URL, password)
		}
		if parts := strings.Split(r.URL.Path, "/"); parts[2] == "v1" {
			_, collection, _ := strings.Cut(r.URL.Path, "/collections/")
			name, _, _ := strings.Cut(collection, "/")
			asked.Store(parts[1]+" "+name, true)
		} else {
			asked.Store(parts[1]+" "+parts[2], true)
		}
		status := map[string]int{"401": 401, "500": 500, "302": 302}[strings.Split(r.URL.Path, "/")[1]]
		if status == 302 {
			w.Header().Set("Location", "http://user:"+url.QueryEscape(secret)+"@127.0.0.1:1/"+url.PathEscape(secret))
		}
		w.WriteHeader(max(status, 200))
		fmt.Fprintf(w, `{"error": "refused", "reason": "user:%[1]s is wrong: %[2]s", "code": %[3]d, "errno": 104, "message": "%[1]s and %[2]s"}`, secret, r.Header.Get("Authorization"), status)
	}))
	t.Cleanup(echo.Close)

	var documents []jobs.Document
	add := func(name, kind, source, target string, credentials map[string]string) {
		documents = append(documents, jobs.Document{
			Namespace: "n", Name: name, Kind: kind, Source: source, Target: target, Credentials: credentials, Placement: jobs.Placement{Node: "node"},
			Options: map[string]jobs.Values{}, Backoff: jobs.Backoff{Min: time.Hour, Max: time.Hour},
		})
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	login, feeds := "file:"+filepath.Join(dir, "login"), "file:"+filepath.Join(dir, "store")
	for _, status := range []string{"200", "302", "401", "500"} {
		add("consume-"+status, "consume", echo.URL+"/"+status+"/feeds/a", "jsonl:"+filepath.Join(dir, "out"+status), map[string]string{"source": "env:SECRET_LOGIN"})
		add("bridge-"+status, "bridge couchdb", echo.URL+"/"+status+"/db", feeds+"#b"+status, map[string]string{"source": login})
		bucket := echo.URL + "/" + status + "/v1/buckets/b/collections/"
		add("kinto-"+status, "bridge kinto", bucket+"from", feeds+"#k"+status, map[string]string{"source": login})
		add("kinto-copy-"+status, "consume", feeds+"#a", "kinto:"+bucket+"into", map[string]string{"target": "env:SECRET_LOGIN"})
		add("kinto-verify-"+status, "verify", feeds+"#a", "kinto:"+bucket+"against", map[string]string{"target": login})
	}
	add("postgres", "consume", feeds+"#a", "postgres://user@127.0.0.1:1/db?table=t", map[string]string{"target": "env:SECRET_PASSWORD"})
	add("outbox", "outbox run", "postgres://user@127.0.0.1:1/db", feeds, map[string]string{"source": "env:SECRET_PASSWORD"})
	documents[len(documents)-1].Options["feed"] = jobs.Values{"f"}

	data, err := stores.Open(t.Context(), feeds, stores.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	zones, err := producer.Open(t.Context(), data, "a", producer.Config{})
	if err == nil {
		_, err = zones.Publish(t.Context(), &producer.Entity{Operation: feed.Put, ContentType: "application/json", ContentLocation: "k", Body: []byte("{}")})
	}
	if err = errors.Join(err, zones.Close(), data.Close()); err != nil {
		t.Fatal(err)
	}

	var log syncBuffer
	logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	settings := jobs.Defaults()
	settings.HealthThreshold = 2 * time.Second // runs give up early
	store, err := jobs.Open(t.Context(), "sqlite:feedctl-jobs.db", m.kinds, settings)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := api.New(store, api.Config{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, body string) string {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		return fmt.Sprintln(method, path, w.Code, w.Header(), w.Body)
	}
	if _, err := store.Apply(t.Context(), documents, jobs.ApplyOptions{Node: "node"}); err != nil {
		t.Fatal(err)
	}
	observed := endings{metrics.NewJobs(store, metrics.NewTransport().Connections), make(chan string, 1000)}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() {
		stopped <- store.Work(ctx, jobs.WorkerConfig{Name: "node", Slots: 20, Logger: logger, Observer: observed})
	}()
	patient := []string{"outbox", "postgres", "bridge-200"} // their runs do not end soon, since they retry for 30 s and longer
	waiting := map[string]bool{}
	for _, d := range documents {
		waiting[d.Name] = !slices.Contains(patient, d.Name)
	}
	for slices.Contains(slices.Collect(maps.Values(waiting)), true) {
		waiting[<-observed.ended] = false
	}
	named := func() bool {
		return strings.Contains(log.String(), `"job":"n/`) && strings.Contains(log.String(), `"run":`)
	}
	for ticks := time.Tick(10 * time.Millisecond); !named(); <-ticks { // until the log names jobs and runs
	}
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}

	for _, status := range []string{"200", "302", "401", "500"} {
		for _, kind := range []string{"feeds", "db", "from", "", "against"} { // "" for a sink, which first requests the root of the server
			if _, ok := asked.Load(status + " " + kind); !ok {
				t.Errorf("the server that answers %s was not asked for %s", status, kind)
			}
		}
	}
	for name, text := range map[string]string{
		"URL":           `{"kind": "consume", "source": "https://user:SECRET@h.test/feeds/a", "target": "jsonl:/x"}`,
		"broken URL":    `{"kind": "consume", "source": "https://user:SECRET@h.test:x/feeds/a", "target": "jsonl:/x"}`,
		"NUL":           `{"kind": "consume", "source": "https://user:SECRET@h.test/\u0000", "target": "jsonl:/x"}`,
		"database":      `{"kind": "consume", "source": "https://h.test/feeds/a", "target": "postgres://u:SECRET@h/db?table=t"}`,
		"parameter":     `{"kind": "consume", "source": "https://h.test/feeds/a", "target": "postgres://u@h/db?table=t&password=SECRET"}`,
		"credential":    `{"kind": "consume", "source": "https://h.test/feeds/a", "target": "jsonl:/x", "credentials": {"source": "SECRET"}}`,
		"header":        `{"kind": "consume", "source": "https://h.test/feeds/a", "target": "jsonl:/x", "options": {"header": "Authorization: SECRET"}}`,
		"unknown field": `{"kind": "consume", "password": "SECRET"}`,
		"option":        `{"kind": "consume", "source": "https://h.test/feeds/a", "target": "jsonl:/x", "options": {"credentials": "SECRET"}}`,
		"type":          `{"kind": "consume", "credentials": ["SECRET"]}`,
	} {
		for _, literal := range []string{secret, url.QueryEscape(secret)} {
			body := strings.ReplaceAll(text, "SECRET", literal)
			noSecret(t, "the answer for "+name, ask("PUT", "/api/v1/namespaces/n/jobs/bad", body)+ask("POST", "/api/v1/runs", body))
			m.write("bad.yaml", `{"version": 1, "namespace": "n", "jobs": [{"name": "bad", `+body[1:]+`]}`)
			out, stderr := m.run(2, "jobs", "apply", "-f", "bad.yaml")
			noSecret(t, "apply with a secret as "+name, out+stderr)
		}
	}

	paths := []string{
		"/api/v1/jobs", "/api/v1/export", "/api/v1/export?format=yaml", "/api/v1/nodes", "/api/v1/origins", "/api/v1/tenants", "/api/v1/settings",
		"/_scheduler/jobs", "/_scheduler/docs", "/_active_tasks", "/openapi.json",
	}
	for n := range documents {
		job := "/api/v1/namespaces/n/jobs/" + documents[n].Name
		paths = append(paths, job, job+"/events", job+"/logs")
	}
	failed := 0
	for _, path := range paths {
		text := ask("GET", path, "")
		failed += strings.Count(text, `"why":"crashed`) + strings.Count(text, `"why":"failed`) + strings.Count(text, " is down, and one of its jobs will try it again")
		noSecret(t, path, text)
	}
	if failed < len(documents)-len(patient) {
		t.Errorf("only %d of %d jobs have failed", failed, len(documents))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(observed.Jobs)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	noSecret(t, "/metrics", w.Body.String())
	noSecret(t, "the log", log.String())
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{"list"}, {"list", "--json"}, {"export"}, {"origins"}, {"describe", "n/consume-401"}, {"history", "n/bridge-500"}, {"describe", "n/kinto-401"}, {"logs", "n/outbox"}} {
		out, stderr := m.run(0, append([]string{"jobs"}, args...)...)
		noSecret(t, strings.Join(args, " "), out+stderr)
	}
	for _, file := range []string{"feedctl-jobs.db", "feedctl-jobs.db-wal"} {
		text, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
		noSecret(t, file, string(text))
	}
}
