package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/bridge"
)

// bridgeMetrics are the counts of a bridge, for Prometheus.
func bridgeMetrics(progress func() bridge.Progress) prometheus.Collector {
	return &metrics[bridge.Progress]{"feedctl_bridge_", []metric[bridge.Progress]{
		{name: "rows_total", help: "Rows of the changes feed that were read.", value: func(p bridge.Progress) int64 { return p.Rows }},
		{name: "documents_read_total", help: "Documents that were read.", value: func(p bridge.Progress) int64 { return p.Read }},
		{name: "entities_published_total", help: "Entities that were published.", value: func(p bridge.Progress) int64 { return p.Published }},
		{name: "repeated_total", help: "Rows that the source sent again.", value: func(p bridge.Progress) int64 { return p.Repeated }},
		{name: "rewinds_total", help: "How often the source began to send rows again.", value: func(p bridge.Progress) int64 { return p.Rewinds }},
		{name: "quarantined_total", help: "Documents and rows that were put into quarantine.", value: func(p bridge.Progress) int64 { return p.Quarantined }},
		{name: "superseded_total", help: "Revisions that gave way to others before they were read.", value: func(p bridge.Progress) int64 { return p.Superseded }},
		{name: "requests_total", help: "Requests for the changes feed.", value: func(p bridge.Progress) int64 { return p.Requests }},
		{name: "pending", help: "Rows that are still to come, -1 if the source does not say.", value: func(p bridge.Progress) int64 { return p.Pending }},
		{name: "last_poll_timestamp_seconds", help: "When the source last sent something of its changes, if only a heartbeat.", time: func(p bridge.Progress) time.Time { return p.LastPoll }},
		{name: "last_publish_timestamp_seconds", help: "When entities were last published.", time: func(p bridge.Progress) time.Time { return p.LastPublish }},
	}, progress}
}
