package metrics

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/readers"
)

// maxReaders limits how many readers have series of their own, since readers choose their names.
const maxReaders = 1000

// Readers returns the metrics of the readers of a server. Only the readers that announce a name have series of their
// own, and of these only the 1,000 seen most recently.
func Readers(t *readers.Tracker) prometheus.Collector {
	return collector(func(to sender) {
		all, _ := t.List()
		to.count("readers", int64(len(all)))
		named := slices.DeleteFunc(all, func(r readers.Reader) bool { return r.Name == "" })
		slices.SortFunc(named, func(a, b readers.Reader) int { return cmp.Or(b.Seen.Compare(a.Seen), cmp.Compare(a.ID, b.ID)) })
		shown := named[:min(len(named), maxReaders)]
		to.count("readers_left_out", int64(len(named)-len(shown)))
		for _, r := range shown {
			to.time("reader_seen_timestamp_seconds", r.Seen, r.Feed, r.Name, r.User)
			if r.Position.Announced && r.Position.Known() && !r.Position.Filling {
				to.time("reader_position_timestamp_seconds", r.Position.Time, r.Feed, r.Name, r.User)
			}
		}
	})
}
