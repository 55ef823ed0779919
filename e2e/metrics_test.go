package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/metrics/catalog"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/s3test"
)

// elsewhere holds the metrics that a process has only after a minute, or only after faults that this test does not cause,
// and the tests that cover them.
var elsewhere = map[string]string{
	"feedctl_job_pending":               "TestValues in internal/metrics",
	"feedctl_jobs_pending":              "TestValues in internal/metrics",
	"feedctl_scheduler_db_errors_total": "TestValues in internal/metrics",
	"feedctl_watch_wakeups_total":       "TestValues in internal/metrics",
}

// TestEveryMetric runs the commands that have metrics. Each exported metric must agree with the list, each metric of the
// list must be exported, and promtool must find nothing wrong with them.
func TestEveryMetric(t *testing.T) {
	t.Parallel()
	m := &scrapes{t: t, dir: t.TempDir(), seen: map[string]bool{}}
	bucket, files, copied := s3test.Start(t).URL("metrics"), "file:"+m.path("store"), "file:"+m.path("copy")
	feedctl(t, "init", bucket)
	feedctl(t, "init", files)
	certificate, key := m.path("cert.pem"), m.path("key.pem")
	m.roots = writeCertificate(t, certificate, key)

	base := m.serve("bucket", "--store", bucket, "--writable", "--maintain", "--cache", m.path("cache"), "--cache-size", "64MiB")
	m.serve("tls", "--store", files, "--tls-cert", certificate, "--tls-key", key)
	lines := func(w io.Writer) error { // a line is published twice, and the input does not end
		_, _ = io.WriteString(w, strings.Repeat(`{"id":"a","text":"b"}`+"\n", 2))
		<-t.Context().Done()
		return nil
	}
	m.command(lines, "publish", "events", "--key", "/id", "--content-id", "/id", "--to", base)
	m.command(nil, "consume", base+"/feeds/events", "--into", "jsonl:"+m.path("out.jsonl"), "--follow")
	none := m.command(nil, "consume", "http://127.0.0.1:1/feeds/none", "--into", "jsonl:"+m.path("none.jsonl"), "--follow") // this one fails, and says so
	m.command(nil, "copy", bucket, copied, "--follow")
	database := couchtest.NewFake(t).NewDB(t)
	m.put(database+"/one", `{}`)
	bridge := m.command(nil, "bridge", "couchdb", database, files+"#docs", "--index", m.path("index.db"), "--follow")
	outbox := pgtest.Start(t).URL("metrics")
	feedctl(t, "init", outbox)
	m.command(nil, "outbox", "run", "--db", outbox, "--all")
	run := exec.CommandContext(t.Context(), "psql", "-qAt", outbox, "-c", "SELECT feedctl.publish('rows', 'a')")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", run, err, out)
	}
	jobs := m.path("jobs.yaml")
	text := fmt.Sprintf(`version: 1
jobs:
  - {name: lines, kind: consume, source: %q, target: %q, follow: true, metrics: true}
  - {name: check, kind: verify, source: %q}
`, base+"/feeds/events", "jsonl:"+m.path("job.jsonl"), base+"/feeds/events")
	if err := os.WriteFile(jobs, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m.command(nil, "jobs", "standalone", "-f", jobs, "--db", "sqlite::memory:", "--name", "node")

	for name := range elsewhere {
		m.seen[name] = true
	}
	missing := func() (names []string) {
		return slices.DeleteFunc(catalog.Names(), func(name string) bool { return m.seen[name] })
	}
	waitForCommand(t, func() string { return fmt.Sprint("no process has ", missing()) }, func() bool {
		m.scrape()
		if len(missing()) == 1 && missing()[0] == "feedctl_store_errors_total" { // comes last, since serve cannot be used afterwards
			if err := os.Rename(m.path("store"), m.path("aside")); err != nil {
				t.Fatal(err)
			}
			m.get(m.targets[1] + "/readyz")
			m.scrape()
		}
		return len(missing()) == 0
	})
	for n, target := range m.targets {
		m.promtool(m.get(target + "/metrics"))
		want := "ready\n"
		switch n {
		case 1:
			want = `"name":"store","state":"failed","error":"the store does not exist; is its disk mounted?","since":"2`
		case none:
			want = `"name":"server http://127.0.0.1:1","state":"failed","error":"dial tcp 127.0.0.1:1: connect: connection refused","since":"2`
		case bridge:
			continue // its store is the one that was renamed
		}
		if got := m.get(target + "/readyz"); got != want && (want == "ready\n" || !strings.Contains(got, want)) {
			t.Errorf("%s/readyz: %s, want %s", target, got, want)
		}
	}
}

// scrapes holds the processes that have metrics.
type scrapes struct {
	t       *testing.T
	dir     string
	roots   *x509.CertPool
	targets []string // URLs
	seen    map[string]bool
}

func (m *scrapes) path(name string) string { return filepath.Join(m.dir, name) }

// serve starts a server and returns its URL.
func (m *scrapes) serve(name string, args ...string) string {
	ready := m.path(name + ".url")
	p := m.start(nil, append([]string{"serve", "--listen", "127.0.0.1:0", "--ready-file", ready}, args...))
	url := ""
	waitFor(m.t, p.stderr.String, func() bool {
		text, _ := os.ReadFile(ready)
		url = strings.TrimSpace(string(text))
		return url != ""
	})
	m.targets = append(m.targets, url)
	return url
}

var announced = regexp.MustCompile(`serving metrics" url=(\S+)/metrics`)

// command starts a command with --metrics, and returns the index of its target.
func (m *scrapes) command(input func(io.Writer) error, args ...string) int {
	p := m.start(input, append(args, "--metrics", "127.0.0.1:0"))
	var found []string
	waitFor(m.t, p.stderr.String, func() bool {
		found = announced.FindStringSubmatch(p.stderr.String())
		return found != nil
	})
	m.targets = append(m.targets, found[1])
	return len(m.targets) - 1
}

func (m *scrapes) start(input func(io.Writer) error, args []string) *process {
	p := &process{t: m.t, name: args[0], args: args, input: input}
	p.start()
	m.t.Cleanup(func() { p.kill(os.Kill) })
	return p
}

func (m *scrapes) get(url string) string {
	m.t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: m.roots}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: waitLimit}).Get(url)
	if err != nil {
		m.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(body)
}

func (m *scrapes) put(url, body string) {
	request, err := http.NewRequestWithContext(m.t.Context(), http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		m.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		m.t.Fatal(err)
	}
	response.Body.Close()
}

var (
	helpLine = regexp.MustCompile(`(?m)^# HELP (feedctl_\S+) (.*)$`)
	typeLine = regexp.MustCompile(`(?m)^# TYPE (feedctl_\S+) (.*)$`)
	sample   = regexp.MustCompile(`(?m)^(feedctl_[a-z_]+)(?:\{(.*)\})? \S+$`)
	label    = regexp.MustCompile(`([a-z_]+)="(?:[^"\\]|\\.)*"`)
)

// scrape compares the metrics of all processes with the list.
func (m *scrapes) scrape() {
	m.t.Helper()
	for _, target := range m.targets {
		text := m.get(target + "/metrics")
		types := map[string]string{}
		for _, line := range typeLine.FindAllStringSubmatch(text, -1) {
			types[line[1]] = line[2]
		}
		for _, line := range helpLine.FindAllStringSubmatch(text, -1) {
			listed, ok := catalog.Find(line[1])
			if help := strings.ReplaceAll(listed.Help, `\`, `\\`); !ok || line[2] != help || types[line[1]] != string(listed.Type) {
				m.t.Errorf("%s: %s is a %s, %q; the list has %+v", target, line[1], types[line[1]], line[2], listed)
			}
			m.seen[line[1]] = true
		}
		for _, line := range sample.FindAllStringSubmatch(text, -1) {
			labels := map[string]bool{}
			for _, l := range label.FindAllStringSubmatch(line[2], -1) {
				labels[l[1]] = true
			}
			delete(labels, "le")
			name := line[1]
			for suffix := range strings.SplitSeq("_bucket _sum _count", " ") {
				if base := strings.TrimSuffix(name, suffix); types[base] == "histogram" {
					name = base
				}
			}
			listed, _ := catalog.Find(name)
			if want := slices.Sorted(slices.Values(listed.Labels)); !slices.Equal(slices.Sorted(maps.Keys(labels)), want) {
				m.t.Errorf("%s: %s, want the labels %v", target, line[0], want)
			}
		}
	}
}

// promtool checks metrics with the promtool of Prometheus.
func (m *scrapes) promtool(text string) {
	m.t.Helper()
	check := exec.CommandContext(m.t.Context(), "promtool", "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil {
		m.t.Errorf("%v: %v\n%s", check, err, out)
	}
}
