package metrics

import (
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

// Consumer returns the metrics of a consumer.
func Consumer(progress func() consumer.Progress) prometheus.Collector {
	return collector(func(to sender) {
		p := progress()
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

// Copy returns the metrics of a copy between stores.
func Copy(report func() replica.Report) prometheus.Collector {
	return collector(func(to sender) {
		r := report()
		to.count("copy_feeds", int64(r.Feeds))
		to.count("copy_entities_total", r.Pages.Entities)
		to.count("copy_pages_total", r.Pages.Pages)
		to.count("copy_snapshot_pages_total", r.Snapshots.Pages)
		to.count("copy_bytes_total", r.Pages.Bytes+r.Snapshots.Bytes)
		to.time("copy_last_complete_timestamp_seconds", r.Complete)
	})
}

// Maintenance returns the metrics of what carries out retention policies.
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
