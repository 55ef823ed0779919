package main

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/cli"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/metrics/catalog"
	"github.com/feedctl/feedctl/internal/task"
)

// TestMetrics: failures and retries are counted, whatever the log level.
func TestMetrics(t *testing.T) {
	failures := 2
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if failures--; failures >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer web.Close()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var out bytes.Buffer
	a := app.New(app.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
	root := newRoot(a)
	root.SetArgs([]string{"consume", web.URL + "/feeds/none", "--into", "-", "--log-level", "error"})
	if err := root.ExecuteContext(t.Context()); exit.HTTPStatus(err) != http.StatusNotFound || strings.Contains(out.String(), "WARN") {
		t.Fatalf("%v: %s", err, &out)
	}
	w := httptest.NewRecorder()
	a.Metrics(metrics.Consumer(new(task.Consume).Progress, nil)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`feedctl_http_client_requests_total{method="HEAD"} 3`, `feedctl_http_client_failures_total{method="HEAD"} 2`,
		`feedctl_log_messages_total{level="warn"} 3`, "feedctl_consume_commits_total 0", "process_start_time_seconds ",
	} {
		if !strings.Contains(w.Body.String(), "\n"+want) {
			t.Errorf("there is no %s:\n%s", want, w.Body)
		}
	}
}

// TestMetricsOfCommands: the list of metrics names exactly the commands that have metrics.
func TestMetricsOfCommands(t *testing.T) {
	have, listed := map[string]bool{"serve": true}, map[string]bool{}
	walk(newRoot(app.New(app.Streams{})), func(c *cobra.Command) {
		if c.Flags().Lookup("metrics") != nil {
			have[cli.Name(c)] = true
		}
	})
	for _, g := range catalog.Groups() {
		for _, command := range g.Commands {
			name, _, _ := strings.Cut(command, " --")
			listed[name] = true
		}
	}
	if !maps.Equal(have, listed) {
		t.Errorf("commands with metrics are %v, the list has %v", slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(listed)))
	}
}
