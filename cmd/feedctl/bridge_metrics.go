package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/internal/metrics"
)

// bridgeMetrics are the counts of a bridge, for Prometheus.
func bridgeMetrics(progress func() bridge.Progress) prometheus.Collector {
	return metrics.New("feedctl_bridge_", progress, []metrics.Metric[bridge.Progress]{
		{Name: "rows_total", Help: "Rows of the changes feed that were read.", Value: func(p bridge.Progress) int64 { return p.Rows }},
		{Name: "documents_read_total", Help: "Documents that were read.", Value: func(p bridge.Progress) int64 { return p.Read }},
		{Name: "entities_published_total", Help: "Entities that were published.", Value: func(p bridge.Progress) int64 { return p.Published }},
		{Name: "repeated_total", Help: "Rows that the source sent again.", Value: func(p bridge.Progress) int64 { return p.Repeated }},
		{Name: "rewinds_total", Help: "How often the source began to send rows again.", Value: func(p bridge.Progress) int64 { return p.Rewinds }},
		{Name: "quarantined_total", Help: "Documents and rows that were put into quarantine.", Value: func(p bridge.Progress) int64 { return p.Quarantined }},
		{Name: "superseded_total", Help: "Revisions that gave way to others before they were read.", Value: func(p bridge.Progress) int64 { return p.Superseded }},
		{Name: "requests_total", Help: "Requests for the changes feed.", Value: func(p bridge.Progress) int64 { return p.Requests }},
		{Name: "pending", Help: "Rows that are still to come, -1 if the source does not say.", Value: func(p bridge.Progress) int64 { return p.Pending }},
		{Name: "last_poll_timestamp_seconds", Help: "When the source last sent something of its changes, if only a heartbeat.", Time: func(p bridge.Progress) time.Time { return p.LastPoll }},
		{Name: "last_publish_timestamp_seconds", Help: "When entities were last published.", Time: func(p bridge.Progress) time.Time { return p.LastPublish }},
	})
}
