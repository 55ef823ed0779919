package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/metrics/catalog"
)

// promtool runs the command promtool in a directory.
func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatalf("%v: run scripts/need promtool=prometheus", err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", cmd, err, out)
	}
}

// generate writes all files into a directory.
func generate(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "monitoring")
}

// TestAlerts has Prometheus check the rules, and test each of them with series for which it fires and
// series for which it does not.
func TestAlerts(t *testing.T) {
	t.Parallel()
	dir := generate(t)
	promtool(t, dir, "check", "rules", "alerts.yaml")
	promtool(t, dir, "test", "rules", "alerts_test.yaml")
}

// TestDashboard has Prometheus parse the expressions of all panels.
func TestDashboard(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(generate(t), "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Panels  []struct{ Targets []struct{ Expr string } }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	rules := ruleFile{[]ruleGroup{{Name: "panels"}}}
	add := func(expression string) {
		expression = strings.NewReplacer("$__rate_interval", "5m", "$__range", "3h", "$instance", ".*").Replace(expression)
		rules.Groups[0].Rules = append(rules.Groups[0].Rules, rule{Record: fmt.Sprintf("panel:%d", len(rules.Groups[0].Rules)), Expr: expression})
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			add(target.Expr)
		}
		for _, inside := range p.Panels {
			for _, target := range inside.Targets {
				add(target.Expr)
			}
		}
	}
	if n := len(rules.Groups[0].Rules); n < 80 {
		t.Errorf("only %d expressions", n)
	}
	text, err := toYAML(rules)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "panels.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, dir, "check", "rules", "panels.yaml")
}

// TestShown: every metric is on the dashboard.
func TestShown(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	for _, r := range rows {
		for _, p := range r.panels {
			for _, q := range p.queries {
				names, err := check(q.text())
				if err != nil {
					t.Error(err)
				}
				for _, name := range names {
					shown[name] = true
				}
			}
		}
	}
	for _, name := range catalog.Names() {
		if !shown[name] {
			t.Errorf("%s is in no panel", name)
		}
	}
}

// TestCheck: mistakes in expressions are found.
func TestCheck(t *testing.T) {
	t.Parallel()
	for expression, ok := range map[string]bool{
		`rate(feedctl_consume_entities_total{instance="feedctl_none"}[5m])`:                          true,
		`histogram_quantile(0.9, sum by (le, route) (feedctl_http_request_duration_seconds_bucket))`: true,
		`feedctl_consume_entities`:                        false,
		`feedctl_http_request_duration_seconds`:           false, // a histogram has no such series
		`feedctl_consume_entities_total_count`:            false,
		`feedctl_consume_entities_total{feed="f"}`:        false,
		`sum by (feed, why) (feedctl_outbox_lag_seconds)`: false,
		`feedctl:feed_age_seconds{feed="f"} > 1`:          true,
		`feedctl:none`:                                    false,
	} {
		if _, err := check(expression); (err == nil) != ok {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

// TestRunbook: the address in each alert leads to a section, and names follow the conventions.
func TestRunbook(t *testing.T) {
	t.Parallel()
	page, err := alertsPage()
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (\S+)$`).FindAllSubmatch(page, -1) {
		anchors["#"+strings.ToLower(string(m[1]))] = true
	}
	for _, a := range alerts() {
		if anchor := strings.TrimPrefix(a.url(), runbook); !anchors[anchor] || a.about == "" || a.remedy == "" {
			t.Errorf("%s has no complete section %s", a.name, anchor)
		}
		if !strings.HasPrefix(a.name, "Feedctl") || a.severity != critical && a.severity != warning {
			t.Errorf("%s, %s", a.name, a.severity)
		}
	}
	for _, m := range regexp.MustCompile(`\]\((#[^)]*)\)`).FindAllSubmatch(page, -1) {
		if !anchors[string(m[1])] {
			t.Errorf("%s leads nowhere", m[1])
		}
	}
}

// TestWithoutExample: an alert without a test is an error.
func TestWithoutExample(t *testing.T) {
	a := alertsOfStore[0]
	defer func() { alertsOfStore[0] = a }()
	alertsOfStore[0].quiet = example{}
	if _, err := alertTests(); err == nil {
		t.Error("an alert without a test in which it does not fire is accepted")
	}
}

// TestUpToDate: the files in the repository are what the generator writes.
func TestUpToDate(t *testing.T) {
	t.Parallel()
	for _, f := range files {
		want, err := f.make()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join("../..", f.path)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not up to date: run make generate (%v)", f.path, err)
		}
	}
}
