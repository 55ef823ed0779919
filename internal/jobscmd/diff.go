package jobscmd

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/jobs"
)

// fields returns the fields of a document that are not empty, by the names that they have in a file.
func fields(d *jobs.Document) map[string]string {
	all := map[string]string{}
	if d == nil {
		return all
	}
	set := func(name, value string) {
		if value != "" {
			all[name] = value
		}
	}
	flag := func(name string, on bool) {
		if on {
			all[name] = "true"
		}
	}
	duration := func(name string, d time.Duration) {
		if d != 0 {
			all[name] = d.String()
		}
	}
	set("kind", d.Kind)
	set("source", d.Source)
	set("target", d.Target)
	flag("follow", d.Follow)
	set("schedule", d.Schedule)
	set("after", strings.Join(d.After, ", "))
	set("placement.node", d.Placement.Node)
	set("placement.labels", strings.Join(d.Placement.Labels, ", "))
	flag("paused", d.Paused)
	flag("metrics", d.Metrics)
	duration("backoff.min", d.Backoff.Min)
	duration("backoff.max", d.Backoff.Max)
	for name, value := range d.Credentials {
		set("credentials."+name, value)
	}
	for name, value := range d.Labels {
		all["labels."+name] = strconv.Quote(value)
	}
	for name, values := range d.Options {
		all["options."+name] = strings.Join(values, ", ")
	}
	return all
}

// fieldOrder is the order of the fields in a file. Fields of a group, such as options, are in the order of
// their names.
var fieldOrder = []string{"kind", "source", "target", "credentials", "follow", "schedule", "after", "options", "labels", "placement", "paused", "metrics", "backoff"}

// difference returns the fields that differ between two documents, each of which may be nil.
func difference(before, after *jobs.Document) (different []fieldJSON) {
	b, a := fields(before), fields(after)
	names := slices.Collect(maps.Keys(a))
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y string) int {
		if c := place(x) - place(y); c != 0 {
			return c
		}
		return strings.Compare(x, y)
	})
	for _, name := range names {
		if b[name] != a[name] {
			different = append(different, fieldJSON{name, b[name], a[name]})
		}
	}
	return different
}

func place(field string) int {
	group, _, _ := strings.Cut(field, ".")
	return slices.Index(fieldOrder, group)
}
