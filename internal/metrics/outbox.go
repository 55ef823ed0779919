package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/internal/metrics/catalog"
	"github.com/feedctl/feedctl/internal/readiness"
	"github.com/feedctl/feedctl/outbox"
)

// scrapeTimeout limits how long the database may take to answer a scrape.
const scrapeTimeout = 5 * time.Second

// OutboxReady returns a check that the database of an outbox responds.
func OutboxReady(opened func() (*outbox.DB, *outbox.Group)) readiness.Check {
	return readiness.Essential("database", func(ctx context.Context) error {
		db, _ := opened()
		if db == nil {
			return errors.New("it has not been opened yet; the log says why")
		}
		_, err := db.Status(ctx)
		return err
	})
}

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
			to.count("outbox_moved_rows_total", s.Rows, feed)
			to.count("outbox_moved_bytes_total", s.Bytes, feed)
			to.time("outbox_last_move_timestamp_seconds", s.Last, feed)
			to.count("outbox_working", working, feed)
		})
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		status, err := db.Status(ctx)
		if err != nil {
			to <- prometheus.NewInvalidMetric(catalog.Desc("outbox_waiting_rows"), err)
			return
		}
		for _, f := range status.Feeds {
			to.count("outbox_waiting_rows", f.Waiting, f.Feed)
			to.count("outbox_waiting_bytes", f.Bytes, f.Feed)
			to.value("outbox_lag_seconds", f.LagSeconds, f.Feed)
			to.count("outbox_quarantined_rows", f.Quarantined, f.Feed)
		}
		age := 0.0
		if t := status.Transaction; t != nil {
			age = time.Since(t.Since).Seconds()
		}
		to.value("outbox_oldest_transaction_seconds", age)
	})
}
