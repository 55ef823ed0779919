package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/internal/metrics/catalog"
)

var (
	quoted   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	named    = regexp.MustCompile(`\b(?:feedctl|go|process)[_:][a-z0-9_:]+`)
	selected = regexp.MustCompile(`\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouped  = regexp.MustCompile(`\b(?:by|on|ignoring|without)\s*\(([^)]*)\)`)
)

// everySeries lists the labels that any series may have: those that Prometheus adds, and the bound of
// a bucket.
var everySeries = []string{"instance", "job", "le"}

// check checks that the metrics and labels of an expression exist, including recorded metrics. It
// returns the names of the feedctl metrics in the expression.
func check(expression string) (names []string, err error) {
	bare := quoted.ReplaceAllString(expression, `""`)
	labels := slices.Clone(everySeries)
	for _, name := range named.FindAllString(bare, -1) {
		switch {
		case strings.HasPrefix(name, "feedctl:"):
			if !slices.ContainsFunc(recorded, func(r record) bool { return r.name == name }) {
				return nil, fmt.Errorf("%s: %s is not recorded", expression, name)
			}
			labels = append(labels, "feed")
		case strings.HasPrefix(name, catalog.Prefix):
			m, ok := metricOf(name)
			if !ok {
				return nil, fmt.Errorf("%s: there is no metric %s", expression, name)
			}
			names, labels = append(names, catalog.Prefix+m.Name), append(labels, m.Labels...)
		}
	}
	for _, used := range labelsIn(bare) {
		if !slices.Contains(labels, used) {
			return nil, fmt.Errorf("%s: its metrics have no label %s", expression, used)
		}
	}
	return names, nil
}

// metricOf returns the metric to which a series belongs.
func metricOf(series string) (catalog.Metric, bool) {
	if m, ok := catalog.Find(series); ok {
		return m, m.Type != catalog.Histogram
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(series, suffix); ok {
			m, found := catalog.Find(name)
			return m, found && m.Type == catalog.Histogram
		}
	}
	return catalog.Metric{}, false
}

// labelsIn returns the labels by which an expression selects or groups. The expression must not
// contain strings.
func labelsIn(expression string) (labels []string) {
	for _, s := range selected.FindAllStringSubmatch(expression, -1) {
		for _, m := range matcher.FindAllStringSubmatch(s[1], -1) {
			labels = append(labels, m[1])
		}
	}
	for _, g := range grouped.FindAllStringSubmatch(expression, -1) {
		for name := range strings.SplitSeq(g[1], ",") {
			if name = strings.TrimSpace(name); name != "" {
				labels = append(labels, name)
			}
		}
	}
	return labels
}
