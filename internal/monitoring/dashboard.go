package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/internal/metrics/catalog"
)

// A row is a titled part of the dashboard.
type row struct {
	title  string
	panels []panel
}

// A panel shows some expressions over time or, if it is a table, their values now.
type panel struct {
	title   string
	unit    string // Grafana's name for the unit
	table   bool
	queries []query
}

// A query is an expression and the legend of its series. In the expression, $i stands for
// [instances].
type query struct{ expression, legend string }

// instances matches the series of the instances that are selected on the dashboard.
const instances = `instance=~"$instance"`

func (q query) text() string { return strings.ReplaceAll(q.expression, "$i", instances) }

// Layout: three panels side by side.
const (
	panelWidth  = 8
	panelHeight = 8
	columns     = 3
)

// An object is an object in Grafana's JSON model of a dashboard. Only the members that matter are
// set.
type object map[string]any

var datasource = object{"type": "prometheus", "uid": "${datasource}"}

// dashboardJSON returns the dashboard.
func dashboardJSON() ([]byte, error) {
	var panels []object
	id, y := 0, 0
	for k, r := range rows {
		id++
		head := object{"id": id, "type": "row", "title": r.title, "collapsed": k >= openRows, "gridPos": object{"h": 1, "w": 24, "x": 0, "y": y}}
		y++
		inside := []object{}
		for n := range r.panels {
			id++
			p, err := r.panels[n].object(id, n%columns*panelWidth, y+n/columns*panelHeight)
			if err != nil {
				return nil, err
			}
			inside = append(inside, p)
		}
		if k >= openRows { // a collapsed row contains its panels
			head["panels"] = inside
			panels = append(panels, head)
			continue
		}
		head["panels"] = []object{}
		panels = append(append(panels, head), inside...)
		y += (len(r.panels) + columns - 1) / columns * panelHeight
	}
	data, err := json.MarshalIndent(object{
		"title": "feedctl", "uid": "feedctl", "tags": []string{"feedctl"}, "editable": true, "schemaVersion": 39, "version": 1,
		"description": "Feeds, their consumers and what publishes to them. Generated from the list of metrics: see docs/metrics.md.",
		"refresh":     "30s", "time": object{"from": "now-3h", "to": "now"}, "timezone": "browser", "panels": panels,
		"templating": object{"list": []object{
			{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
			{
				"name": "instance", "label": "Instance", "type": "query", "datasource": datasource, "query": "label_values(feedctl_build_info, instance)",
				"definition": "label_values(feedctl_build_info, instance)", "refresh": 2, "multi": true, "includeAll": true, "allValue": ".*", "sort": 1,
				"current": object{"text": "All", "value": "$__all"},
			},
		}},
	}, "", "  ")
	return append(data, '\n'), err
}

// object returns the panel at position (x, y). Its description is the help of its metrics.
func (p *panel) object(id, x, y int) (object, error) {
	var targets []object
	var help []string
	for n, q := range p.queries {
		names, err := check(q.text())
		if err != nil {
			return nil, fmt.Errorf("panel %s: %w", p.title, err)
		}
		for _, name := range names {
			if m, _ := catalog.Find(name); !slices.Contains(help, m.Help) {
				help = append(help, m.Help)
			}
		}
		targets = append(targets, object{
			"refId": string(rune('A' + n)), "expr": q.text(), "legendFormat": q.legend, "datasource": datasource, "instant": p.table, "range": !p.table,
		})
	}
	o := object{
		"id": id, "type": "timeseries", "title": p.title, "description": strings.Join(help, "\n\n"), "datasource": datasource, "targets": targets,
		"gridPos":     object{"h": panelHeight, "w": panelWidth, "x": x, "y": y},
		"fieldConfig": object{"defaults": object{"unit": p.unit, "min": 0, "custom": object{"fillOpacity": 10, "showPoints": "never"}}, "overrides": []object{}},
		"options":     object{"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true}, "tooltip": object{"mode": "multi", "sort": "desc"}},
	}
	if p.table {
		o["type"] = "bargauge"
		o["fieldConfig"] = object{"defaults": object{"unit": p.unit, "min": 0, "color": object{"mode": "fixed", "fixedColor": "blue"}}, "overrides": []object{}}
		o["options"] = object{"orientation": "horizontal", "displayMode": "basic", "showUnfilled": true, "reduceOptions": object{"calcs": []string{"lastNotNull"}}}
	}
	return o, nil
}
