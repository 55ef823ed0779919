// Command monitoring generates, from the list of metrics, the documentation of the metrics, alerts
// for Prometheus with tests and a runbook, and a dashboard for Grafana.
//
//	go run ./internal/monitoring .
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: monitoring DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}

// A file is one of the files that the generator writes.
type file struct {
	path string // in the repository
	make func() ([]byte, error)
}

// files lists all files that the generator writes.
var files = []file{
	{"docs/metrics.md", metricsPage},
	{"docs/alerts.md", alertsPage},
	{"monitoring/alerts.yaml", alertRules},
	{"monitoring/alerts_test.yaml", alertTests},
	{"monitoring/dashboard.json", dashboardJSON},
}

// write writes all files into a directory.
func write(dir string) error {
	for _, f := range files {
		data, err := f.make()
		if err != nil {
			return fmt.Errorf("generate %s: %w", f.path, err)
		}
		path := filepath.Join(dir, filepath.FromSlash(f.path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("create directory of %s: %w", f.path, err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", f.path, err)
		}
	}
	return nil
}
