package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// gaugeWait is how long a scrape waits for feeds to be polled.
const gaugeWait = 50 * time.Millisecond

// feedGauges tell where each feed ends: without them a producer that has died looks like one
// that has nothing to publish.
type feedGauges struct {
	server                       *Server
	newest, time, feeds, leftOut *prometheus.Desc
}

func newFeedGauges(s *Server) *feedGauges {
	labels := []string{"feed"}
	return &feedGauges{
		server:  s,
		newest:  prometheus.NewDesc("feedctl_feed_newest_page", "Number of the feed's newest page.", labels, nil),
		time:    prometheus.NewDesc("feedctl_feed_last_modified_timestamp_seconds", "Last-Modified of the feed's last entity.", labels, nil),
		feeds:   prometheus.NewDesc("feedctl_feeds", "Feeds in the store.", nil, nil),
		leftOut: prometheus.NewDesc("feedctl_feeds_left_out", "Feeds in the store that have no metrics of their own here: not looked at yet, unreadable, or beyond the first 10,000.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (g *feedGauges) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{g.newest, g.time, g.feeds, g.leftOut} {
		out <- desc
	}
}

// Collect implements [prometheus.Collector].
func (g *feedGauges) Collect(out chan<- prometheus.Metric) {
	pages, feeds := g.server.reader.Heads(gaugeWait)
	for _, p := range pages {
		out <- prometheus.MustNewConstMetric(g.newest, prometheus.GaugeValue, float64(p.Number), p.Feed)
		out <- prometheus.MustNewConstMetric(g.time, prometheus.GaugeValue, float64(p.Last.UnixMilli())/1000, p.Feed)
	}
	out <- prometheus.MustNewConstMetric(g.feeds, prometheus.GaugeValue, float64(feeds))
	out <- prometheus.MustNewConstMetric(g.leftOut, prometheus.GaugeValue, float64(max(feeds-len(pages), 0)))
}
