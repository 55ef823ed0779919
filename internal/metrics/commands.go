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
		to.count("bridge_rows_total", "Rows of the changes feed that were read.", p.Rows)
		to.count("bridge_documents_read_total", "Documents that were read.", p.Read)
		to.count("bridge_entities_published_total", "Entities that were published.", p.Published)
		to.count("bridge_repeated_total", "Rows that the source sent again.", p.Repeated)
		to.count("bridge_rewinds_total", "How often the source began to send rows again.", p.Rewinds)
		to.count("bridge_quarantined_total", "Documents and rows that were put into quarantine.", p.Quarantined)
		to.count("bridge_superseded_total", "Revisions that gave way to others before they were read.", p.Superseded)
		to.count("bridge_requests_total", "Requests for the changes feed.", p.Requests)
		to.count("bridge_pending", "Rows that are still to come, -1 if the source does not say.", p.Pending)
		to.time("bridge_last_poll_timestamp_seconds", "When the source last sent something about its changes, even if only a heartbeat.", p.LastPoll)
		to.time("bridge_last_publish_timestamp_seconds", "When entities were last published.", p.LastPublish)
	})
}

// Consumer returns the metrics of a consumer.
func Consumer(progress func() consumer.Progress) prometheus.Collector {
	return collector(func(to sender) {
		p := progress()
		to.count("consume_entities_total", "Entities that this process has committed.", p.Entities)
		to.count("consume_bytes_total", "Bytes of their bodies.", p.Bytes)
		to.count("consume_commits_total", "Commits of the sink.", p.Batches)
		to.count("consume_rejected_total", "Entities that went into quarantine, or were refused.", p.Rejected.Total())
		to.count("consume_gaps_total", "Gaps that were handled as --on-gap says.", int64(p.Gaps))
		to.time("consume_last_commit_timestamp_seconds", "When the sink last committed.", p.Committed)
		to.time("consume_position_timestamp_seconds", "Last-Modified of the last entity that was committed.", p.Position.LastModified)
		to.time("consume_newest_timestamp_seconds", "Last-Modified of the newest page of the feed, as far as known.", p.Newest)
	})
}

// Copy returns the metrics of a copy between stores.
func Copy(report func() replica.Report) prometheus.Collector {
	return collector(func(to sender) {
		r := report()
		to.count("copy_feeds", "Feeds that the target has.", int64(r.Feeds))
		to.count("copy_entities_total", "Entities of feeds that were copied.", r.Pages.Entities)
		to.count("copy_pages_total", "Pages of feeds that were begun.", r.Pages.Pages)
		to.count("copy_snapshot_pages_total", "Pages of snapshots that were copied.", r.Snapshots.Pages)
		to.count("copy_bytes_total", "Bytes of these pages.", r.Pages.Bytes+r.Snapshots.Bytes)
		to.time("copy_last_complete_timestamp_seconds", "When the target last had all that the source had.", r.Complete)
	})
}

// Maintenance returns the metrics of what carries out retention policies.
func Maintenance(stats func() maintain.Stats) prometheus.Collector {
	return collector(func(to sender) {
		s := stats()
		to.count("maintain_feeds", "Feeds with a retention policy, in the last round.", s.Feeds)
		to.count("maintain_snapshots_total", "Snapshots that were made.", s.Snapshots)
		to.count("maintain_snapshots_deleted_total", "Old snapshots that were deleted.", s.Deleted)
		to.count("maintain_pages_pruned_total", "Pages that were pruned.", s.Pages)
		to.count("maintain_bytes_pruned_total", "Bytes of these pages.", s.Bytes)
		to.count("maintain_failures_total", "Runs of a policy that failed; the log has the errors.", s.Failures)
		to.time("maintain_last_round_timestamp_seconds", "When all feeds had been maintained last.", s.Complete)
	})
}
