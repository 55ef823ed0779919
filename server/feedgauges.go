package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/internal/metrics/catalog"
)

// gaugeWait is how long a scrape waits for feeds to be polled.
const gaugeWait = 50 * time.Millisecond

// feedGauges exports metrics of the newest page of each feed, which show whether a producer has
// stopped.
type feedGauges struct{ server *Server }

// Describe implements [prometheus.Collector]. It sends nothing: the catalog describes the metrics.
func (feedGauges) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (g feedGauges) Collect(to chan<- prometheus.Metric) {
	pages, feeds := g.server.reader.Heads(gaugeWait)
	for _, p := range pages {
		catalog.Send(to, "feed_newest_page", float64(p.Number), p.Feed)
		catalog.Send(to, "feed_last_modified_timestamp_seconds", float64(p.Last.UnixMilli())/1000, p.Feed)
	}
	catalog.Send(to, "feeds", float64(feeds))
	catalog.Send(to, "feeds_left_out", float64(max(feeds-len(pages), 0)))
}
