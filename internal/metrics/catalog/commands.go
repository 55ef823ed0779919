package catalog

var consumers = Group{
	Title:    "Consumers",
	Commands: []string{"consume", "restore"},
	Text: "A value that is not known is absent rather than 0: the lag, for example, while the sink has no position, and while it is filled newest first. " +
		"The lag grows while a consumer cannot read the feed or write to its sink. It is 0 if the feed had nothing more when it was last " +
		"read; `feedctl_consume_caught_up_timestamp_seconds` says when that was, and is only known with `--follow`.",
	Metrics: []Metric{
		{Name: "consume_entities_total", Type: Counter, Help: "Entities that this process has committed."},
		{Name: "consume_bytes_total", Type: Counter, Help: "Bytes of the bodies of committed entities."},
		{Name: "consume_commits_total", Type: Counter, Help: "Commits of the sink."},
		{Name: "consume_quarantined_total", Type: Counter, Help: "Entities that went into quarantine."},
		{Name: "consume_refused_total", Type: Counter, Help: "Entities that the target of the sink refused; the log has the reasons."},
		{Name: "consume_gaps_total", Type: Counter, Help: "Gaps that were handled as --on-gap says."},
		{Name: "consume_lag_seconds", Type: Gauge, Help: "Age of the oldest entity of the feed that has not been committed, as far as known; 0 if there is none."},
		{Name: "consume_last_commit_timestamp_seconds", Type: Gauge, Help: "When the sink last committed."},
		{Name: "consume_caught_up_timestamp_seconds", Type: Gauge, Help: "When the feed last had nothing that was not committed."},
		{Name: "consume_position_timestamp_seconds", Type: Gauge, Help: "Last-Modified of the last entity that was committed."},
		{Name: "consume_newest_timestamp_seconds", Type: Gauge, Help: "Last-Modified of the newest page of the feed, as far as known."},
	},
}

var published = Group{
	Title:    "Publishing",
	Commands: []string{"publish"},
	Text:     "These metrics are of interest for a `publish` that reads an endless stream.",
	Metrics: []Metric{
		{Name: "publish_entities_total", Type: Counter, Help: "Entities that were published."},
		{Name: "publish_duplicates_total", Type: Counter, Help: "Entities that were in the feed already."},
		{Name: "publish_bytes_total", Type: Counter, Help: "Bytes of the bodies of published and duplicate entities, excluding those that are streamed."},
		{Name: "publish_last_commit_timestamp_seconds", Type: Gauge, Help: "When entities of the input last became durable."},
	},
}

var bridges = Group{
	Title:    "Bridges",
	Commands: []string{"bridge couchdb", "bridge kinto"},
	Text: "The metrics of a bridge of a bucket are the sums over its collections. The time of the last poll distinguishes a bridge that hangs from one whose source is idle; " +
		"see [CouchDB](couchdb.md) and [Kinto](kinto.md).",
	Metrics: []Metric{
		{Name: "bridge_rows_total", Type: Counter, Help: "Rows of the changes feed that were read."},
		{Name: "bridge_documents_read_total", Type: Counter, Help: "Documents that were read."},
		{Name: "bridge_entities_published_total", Type: Counter, Help: "Entities that were published."},
		{Name: "bridge_repeated_total", Type: Counter, Help: "Rows that the source sent again."},
		{Name: "bridge_rewinds_total", Type: Counter, Help: "Number of times that the source began to send rows again."},
		{Name: "bridge_quarantined_total", Type: Counter, Help: "Documents and rows that were put into quarantine."},
		{Name: "bridge_superseded_total", Type: Counter, Help: "Revisions that were replaced by others before they were read."},
		{Name: "bridge_requests_total", Type: Counter, Help: "Requests for the changes feed."},
		{Name: "bridge_pending", Type: Gauge, Help: "Rows that are still to come, -1 if the source does not say. Kinto never does."},
		{Name: "bridge_last_poll_timestamp_seconds", Type: Gauge, Help: "When the source last sent something about its changes, even if only a heartbeat."},
		{Name: "bridge_last_publish_timestamp_seconds", Type: Gauge, Help: "When entities were last published."},
	},
}

var outboxes = Group{
	Title:    "Outbox",
	Commands: []string{"outbox run"},
	Text: "The waiting rows and the oldest transaction are read from the database at each scrape, so they are the same for all runners of an " +
		"outbox. Take the maximum, not the sum. See [runners](postgres.md#runners).",
	Metrics: []Metric{
		{Name: "outbox_moved_rows_total", Type: Counter, Labels: []string{"feed"}, Help: "Rows that this process has moved."},
		{Name: "outbox_moved_bytes_total", Type: Counter, Labels: []string{"feed"}, Help: "Bytes of the bodies of moved rows."},
		{Name: "outbox_last_move_timestamp_seconds", Type: Gauge, Labels: []string{"feed"}, Help: "When this process last moved rows."},
		{Name: "outbox_working", Type: Gauge, Labels: []string{"feed"}, Help: "1 if this process works on the feed, 0 if it is ready to: another process works on it, or the feed is idle."},
		{Name: "outbox_waiting_rows", Type: Gauge, Labels: []string{"feed"}, Help: "Rows that are committed and not moved."},
		{Name: "outbox_waiting_bytes", Type: Gauge, Labels: []string{"feed"}, Help: "Bytes of the bodies of waiting rows."},
		{Name: "outbox_lag_seconds", Type: Gauge, Labels: []string{"feed"}, Help: "Time since the oldest waiting row was inserted."},
		{Name: "outbox_quarantined_rows", Type: Gauge, Labels: []string{"feed"}, Help: "Rows in quarantine."},
		{Name: "outbox_oldest_transaction_seconds", Type: Gauge, Help: "Age of the oldest open transaction that has written to the outbox; 0 if none is older than a second."},
	},
}

var copies = Group{
	Title:    "Copies",
	Commands: []string{"copy"},
	Metrics: []Metric{
		{Name: "copy_feeds", Type: Gauge, Help: "Feeds that the target has."},
		{Name: "copy_entities_total", Type: Counter, Help: "Entities of feeds that were copied."},
		{Name: "copy_pages_total", Type: Counter, Help: "Pages of feeds that were begun."},
		{Name: "copy_snapshot_pages_total", Type: Counter, Help: "Pages of snapshots that were copied."},
		{Name: "copy_bytes_total", Type: Counter, Help: "Bytes of the pages that were copied."},
		{Name: "copy_last_complete_timestamp_seconds", Type: Gauge, Help: "When the target last had all that the source had."},
	},
}
