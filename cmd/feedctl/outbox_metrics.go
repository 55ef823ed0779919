package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/outbox"
)

// metricsTime is how long the database may take to answer a scrape.
const metricsTime = 5 * time.Second

// An outboxCollector asks the database when it is scraped.
type outboxCollector struct {
	db                                                         *outbox.DB
	group                                                      *outbox.Group
	rows, bytes, lag, bad, moved, movedBytes, last, work, open *prometheus.Desc
}

func newOutboxCollector(db *outbox.DB, group *outbox.Group) *outboxCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("feedctl_outbox_"+name, help, labels, nil)
	}
	return &outboxCollector{
		db:         db,
		group:      group,
		rows:       desc("waiting_rows", "Rows that are committed and not moved.", "feed"),
		bytes:      desc("waiting_bytes", "Bytes of their bodies.", "feed"),
		lag:        desc("lag_seconds", "Time since the oldest of them was inserted.", "feed"),
		bad:        desc("quarantined_rows", "Rows in quarantine.", "feed"),
		moved:      desc("moved_rows_total", "Rows that this process has moved.", "feed"),
		movedBytes: desc("moved_bytes_total", "Bytes of their bodies.", "feed"),
		last:       desc("last_move_timestamp_seconds", "When this process last moved rows.", "feed"),
		work:       desc("working", "1 if this process works on the feed, 0 if it is ready to: another process works on it, or the feed is idle.", "feed"),
		open:       desc("oldest_transaction_seconds", "Age of the oldest open transaction that has written to the outbox; 0 if none is older than a second."),
	}
}

func (o *outboxCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{o.rows, o.bytes, o.lag, o.bad, o.moved, o.movedBytes, o.last, o.work, o.open} {
		to <- d
	}
}

func (o *outboxCollector) Collect(to chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, d *prometheus.Desc, v float64, feed ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, v, feed...)
	}
	o.group.Each(func(name string, s outbox.Stats) {
		send(prometheus.CounterValue, o.moved, float64(s.Rows), name)
		send(prometheus.CounterValue, o.movedBytes, float64(s.Bytes), name)
		if !s.Last.IsZero() {
			send(prometheus.GaugeValue, o.last, float64(s.Last.UnixMilli())/1000, name)
		}
		working := 0.0
		if s.Working {
			working = 1
		}
		send(prometheus.GaugeValue, o.work, working, name)
	})
	ctx, cancel := context.WithTimeout(context.Background(), metricsTime)
	defer cancel()
	status, err := o.db.Status(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(o.rows, err)
		return
	}
	for _, f := range status.Feeds {
		send(prometheus.GaugeValue, o.rows, float64(f.Waiting), f.Feed)
		send(prometheus.GaugeValue, o.bytes, float64(f.Bytes), f.Feed)
		send(prometheus.GaugeValue, o.lag, f.Lag.Seconds(), f.Feed)
		send(prometheus.GaugeValue, o.bad, float64(f.Quarantined), f.Feed)
	}
	age := 0.0
	if t := status.Transaction; t != nil {
		age = time.Since(t.Since).Seconds()
	}
	send(prometheus.GaugeValue, o.open, age)
}
