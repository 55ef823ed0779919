package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/replica"
	"github.com/feedctl/feedctl/retention/maintain"
)

// Bridge returns the metrics of a bridge.
func Bridge(progress func() bridge.Progress) prometheus.Collector {
	return collector(func(to sender) {
		p := progress()
		to.count("bridge_rows_total", p.Rows)
		to.count("bridge_documents_read_total", p.Read)
		to.count("bridge_entities_published_total", p.Published)
		to.count("bridge_repeated_total", p.Repeated)
		to.count("bridge_rewinds_total", p.Rewinds)
		to.count("bridge_quarantined_total", p.Quarantined)
		to.count("bridge_superseded_total", p.Superseded)
		to.count("bridge_requests_total", p.Requests)
		to.count("bridge_pending", p.Pending)
		to.time("bridge_last_poll_timestamp_seconds", p.LastPoll)
		to.time("bridge_last_publish_timestamp_seconds", p.LastPublish)
	})
}

// A Follower reports how far it is behind a feed.
type Follower interface {
	Lag() time.Duration  // negative if it is not known
	CaughtUp() time.Time // zero if it is not known
}

// Consumer returns the metrics of a consumer. Without a follower, some of these metrics are missing.
func Consumer(progress func() consumer.Progress, f Follower) prometheus.Collector {
	return collector(func(to sender) {
		p := progress()
		if f != nil {
			if lag := f.Lag(); lag >= 0 {
				to.value("consume_lag_seconds", lag.Seconds())
			}
			to.time("consume_caught_up_timestamp_seconds", f.CaughtUp())
		}
		to.count("consume_entities_total", p.Entities)
		to.count("consume_bytes_total", p.Bytes)
		to.count("consume_commits_total", p.Batches)
		to.count("consume_quarantined_total", p.Rejected.Quarantined)
		to.count("consume_refused_total", p.Rejected.Refused)
		to.count("consume_gaps_total", int64(p.Gaps))
		to.time("consume_last_commit_timestamp_seconds", p.Committed)
		to.time("consume_position_timestamp_seconds", p.Position.LastModified)
		to.time("consume_newest_timestamp_seconds", p.Newest)
	})
}

// Certificate returns the metric of a certificate that expires at the given time.
func Certificate(expires time.Time) prometheus.Collector {
	return collector(func(to sender) { to.time("tls_certificate_expiry_timestamp_seconds", expires) })
}

// Copy returns the metrics of a copy between stores. opened returns nil before the stores are open.
func Copy(opened func() *replica.Copy) prometheus.Collector {
	return collector(func(to sender) {
		c := opened()
		if c == nil {
			return
		}
		r := c.Report()
		to.count("copy_feeds", int64(r.Feeds))
		to.count("copy_entities_total", r.Pages.Entities)
		to.count("copy_pages_total", r.Pages.Pages)
		to.count("copy_snapshot_pages_total", r.Snapshots.Pages)
		to.count("copy_bytes_total", r.Pages.Bytes+r.Snapshots.Bytes)
		to.time("copy_last_complete_timestamp_seconds", r.Complete)
	})
}

// Maintenance returns the metrics of a process that carries out retention policies.
func Maintenance(stats func() maintain.Stats) prometheus.Collector {
	return collector(func(to sender) {
		s := stats()
		to.count("maintain_feeds", s.Feeds)
		to.count("maintain_snapshots_total", s.Snapshots)
		to.count("maintain_snapshots_deleted_total", s.Deleted)
		to.count("maintain_pages_pruned_total", s.Pages)
		to.count("maintain_bytes_pruned_total", s.Bytes)
		to.count("maintain_failures_total", s.Failures)
		to.time("maintain_last_round_timestamp_seconds", s.Complete)
	})
}
