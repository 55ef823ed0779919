package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// gaugeWait is how long a scrape waits for feeds to be polled.
const gaugeWait = 50 * time.Millisecond

// feedGauges export the newest page of each feed, which shows a producer that has stopped.
type feedGauges struct {
	server                       *Server
	newest, time, feeds, omitted *prometheus.Desc
}

func newFeedGauges(s *Server) *feedGauges {
	labels := []string{"feed"}
	return &feedGauges{
		server:  s,
		newest:  prometheus.NewDesc("feedctl_feed_newest_page", "Number of the feed's newest page.", labels, nil),
		time:    prometheus.NewDesc("feedctl_feed_last_modified_timestamp_seconds", "Last-Modified of the feed's last entity.", labels, nil),
		feeds:   prometheus.NewDesc("feedctl_feeds", "Feeds in the store.", nil, nil),
		omitted: prometheus.NewDesc("feedctl_feeds_left_out", "Feeds in the store without metrics of their own: not polled yet, unreadable, or beyond the first 10,000.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (g *feedGauges) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{g.newest, g.time, g.feeds, g.omitted} {
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
	out <- prometheus.MustNewConstMetric(g.omitted, prometheus.GaugeValue, float64(max(feeds-len(pages), 0)))
}
