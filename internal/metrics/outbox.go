package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/outbox"
)

// scrapeTimeout limits how long the database may take to answer a scrape.
const scrapeTimeout = 5 * time.Second

// Outbox returns the metrics of the runners of this process, and of the outbox in their database,
// which each scrape queries.
func Outbox(opened func() (*outbox.DB, *outbox.Group)) prometheus.Collector {
	return collector(func(to sender) {
		db, group := opened()
		if db == nil {
			return
		}
		group.Each(func(feed string, s outbox.Stats) {
			working := int64(0)
			if s.Working {
				working = 1
			}
			to.count("outbox_moved_rows_total", "Rows that this process has moved.", s.Rows, "feed", feed)
			to.count("outbox_moved_bytes_total", "Bytes of their bodies.", s.Bytes, "feed", feed)
			to.time("outbox_last_move_timestamp_seconds", "When this process last moved rows.", s.Last, "feed", feed)
			to.count("outbox_working", "1 if this process works on the feed, 0 if it is ready to: another process works on it, or the feed is idle.", working, "feed", feed)
		})
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		status, err := db.Status(ctx)
		if err != nil {
			to <- prometheus.NewInvalidMetric(prometheus.NewDesc("feedctl_outbox_waiting_rows", "Rows that are committed and not moved.", nil, nil), err)
			return
		}
		for _, f := range status.Feeds {
			to.count("outbox_waiting_rows", "Rows that are committed and not moved.", f.Waiting, "feed", f.Feed)
			to.count("outbox_waiting_bytes", "Bytes of their bodies.", f.Bytes, "feed", f.Feed)
			to.value("outbox_lag_seconds", "Time since the oldest of them was inserted.", f.LagSeconds, "feed", f.Feed)
			to.count("outbox_quarantined_rows", "Rows in quarantine.", f.Quarantined, "feed", f.Feed)
		}
		age := 0.0
		if t := status.Transaction; t != nil {
			age = time.Since(t.Since).Seconds()
		}
		to.value("outbox_oldest_transaction_seconds", "Age of the oldest open transaction that has written to the outbox; 0 if none is older than a second.", age)
	})
}
