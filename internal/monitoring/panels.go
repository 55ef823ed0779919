package main

// openRows is how many rows are open at first; the others are for commands that not everyone runs.
const openRows = 3

// rows lists the rows of the dashboard.
var rows = []row{
	{"Overview", []panel{
		{"Processes", "none", false, []query{{`count by (version) (feedctl_build_info{$i})`, "{{version}}"}}},
		{"Quietest feeds", "s", true, []query{{`topk(10, time() - max by (feed) (feedctl_feed_last_modified_timestamp_seconds{$i}))`, "{{feed}}"}}},
		{"Lag", "s", false, []query{
			{`max by (instance) (feedctl_consume_lag_seconds{$i})`, "consumer {{instance}}"},
			{`max by (feed) (feedctl_outbox_lag_seconds{$i})`, "outbox, feed {{feed}}"},
			{`max by (namespace) (feedctl_jobs_longest_lag_seconds{$i})`, "jobs of {{namespace}}"},
		}},
		{"Entities published", "ops", false, []query{
			{`sum by (feed) (rate(feedctl_published_entities_total{$i}[$__rate_interval]))`, "server, {{feed}}"},
			{`sum by (instance) (rate(feedctl_bridge_entities_published_total{$i}[$__rate_interval]))`, "bridge {{instance}}"},
			{`sum by (feed) (rate(feedctl_outbox_moved_rows_total{$i}[$__rate_interval]))`, "outbox, {{feed}}"},
			{`sum by (instance) (rate(feedctl_publish_entities_total{$i}[$__rate_interval]))`, "publish {{instance}}"},
		}},
		{"Put aside", "none", false, []query{
			{`sum by (instance) (increase(feedctl_consume_quarantined_total{$i}[$__range]))`, "quarantined by {{instance}}"},
			{`sum by (instance) (increase(feedctl_consume_refused_total{$i}[$__range]))`, "refused by the sink of {{instance}}"},
			{`sum by (instance) (increase(feedctl_bridge_quarantined_total{$i}[$__range]))`, "bridge {{instance}}"},
			{`max by (feed) (feedctl_outbox_quarantined_rows{$i})`, "outbox, {{feed}}"},
		}},
		{"Warnings and errors in the log", "ops", false, []query{{`sum by (instance, level) (rate(feedctl_log_messages_total{$i}[$__rate_interval]))`, "{{level}}, {{instance}}"}}},
	}},
	{"Server", []panel{
		{"Requests", "reqps", false, []query{{`sum by (route) (rate(feedctl_http_requests_total{$i}[$__rate_interval]))`, "{{route}}"}}},
		{"Errors", "reqps", false, []query{{`sum by (code) (rate(feedctl_http_requests_total{$i,code=~"[45].."}[$__rate_interval]))`, "{{code}}"}}},
		{"Duration of requests, 99 %", "s", false, []query{{`histogram_quantile(0.99, sum by (le, route) (rate(feedctl_http_request_duration_seconds_bucket{$i}[$__rate_interval])))`, "{{route}}"}}},
		{"Sent", "Bps", false, []query{{`sum by (instance) (rate(feedctl_http_response_bytes_total{$i}[$__rate_interval]))`, "{{instance}}"}}},
		{"Waiting requests", "none", false, []query{{`feedctl_http_waiters{$i}`, "{{instance}}"}}},
		{"Duplicates", "ops", false, []query{{`sum by (feed) (rate(feedctl_duplicate_entities_total{$i}[$__rate_interval]))`, "{{feed}}"}}},
		{"Feeds", "none", false, []query{{`max(feedctl_feeds{$i})`, "feeds"}, {`max(feedctl_feeds_left_out{$i})`, "without metrics"}}},
		{"New pages", "none", false, []query{{`topk(10, sum by (feed) (delta(feedctl_feed_newest_page{$i}[1h])))`, "{{feed}}, per hour"}}},
		{"Readers behind", "s", true, []query{{`topk(10, max by (job, feed) (feedctl_feed_last_modified_timestamp_seconds{$i}) - on (job, feed) group_right () max by (job, feed, reader) (feedctl_reader_position_timestamp_seconds{$i}))`, "{{reader}} of {{feed}}"}}},
		{"Since readers were seen", "s", true, []query{{`topk(10, time() - max by (feed, reader) (feedctl_reader_seen_timestamp_seconds{$i}))`, "{{reader}} of {{feed}}"}}},
		{"Readers", "none", false, []query{{`sum(feedctl_readers{$i})`, "readers"}, {`sum(feedctl_readers_left_out{$i})`, "without metrics"}}},
		{"Certificate expires in", "s", false, []query{{`feedctl_tls_certificate_expiry_timestamp_seconds{$i} - time()`, "{{instance}}"}}},
	}},
	{"Consumers", []panel{
		{"Entities", "ops", false, []query{{`rate(feedctl_consume_entities_total{$i}[$__rate_interval])`, "{{instance}}"}}},
		{"Bodies", "Bps", false, []query{{`rate(feedctl_consume_bytes_total{$i}[$__rate_interval])`, "{{instance}}"}}},
		{"Commits", "ops", false, []query{{`rate(feedctl_consume_commits_total{$i}[$__rate_interval])`, "{{instance}}"}}},
		{"Since the last commit", "s", false, []query{{`time() - feedctl_consume_last_commit_timestamp_seconds{$i}`, "{{instance}}"}, {`time() - feedctl_consume_caught_up_timestamp_seconds{$i}`, "{{instance}}, since it was caught up"}}},
		{"Position behind the newest page", "s", false, []query{{`feedctl_consume_newest_timestamp_seconds{$i} - feedctl_consume_position_timestamp_seconds{$i}`, "{{instance}}"}}},
		{"Gaps", "none", false, []query{{`increase(feedctl_consume_gaps_total{$i}[$__rate_interval])`, "{{instance}}"}}},
		{"Requests to servers", "reqps", false, []query{
			{`sum by (instance) (rate(feedctl_http_client_requests_total{$i}[$__rate_interval]))`, "{{instance}}"},
			{`sum by (instance) (rate(feedctl_http_client_failures_total{$i}[$__rate_interval]))`, "{{instance}}, failed"},
		}},
		{"Input of publish", "Bps", false, []query{{`rate(feedctl_publish_bytes_total{$i}[$__rate_interval])`, "{{instance}}"}, {`rate(feedctl_publish_duplicates_total{$i}[$__rate_interval])`, "{{instance}}, duplicates"}}},
		{"Since the last commit of publish", "s", false, []query{{`time() - feedctl_publish_last_commit_timestamp_seconds{$i}`, "{{instance}}"}}},
	}},
	{"Store and page cache", []panel{
		{"Duration of operations, 99 %", "s", false, []query{{`histogram_quantile(0.99, sum by (le, operation) (rate(feedctl_store_operation_duration_seconds_bucket{$i}[$__rate_interval])))`, "{{operation}}"}}},
		{"Operations", "ops", false, []query{{`sum by (operation) (rate(feedctl_store_operation_duration_seconds_count{$i}[$__rate_interval]))`, "{{operation}}"}}},
		{"Errors", "ops", false, []query{
			{`sum by (operation) (rate(feedctl_store_errors_total{$i}[$__rate_interval]))`, "{{operation}}"},
			{`sum(increase(feedctl_corrupt_objects_total{$i}[$__rate_interval]))`, "corrupt objects"},
		}},
		{"Requests to S3", "reqps", false, []query{{`sum by (operation) (rate(feedctl_store_requests_total{$i}[$__rate_interval]))`, "{{operation}}"}}},
		{"Pages read", "ops", false, []query{{`sum by (why) (rate(feedctl_pages_fetched_total{$i}[$__rate_interval]))`, "{{why}}"}}},
		{"Memory for pages", "bytes", false, []query{{`feedctl_page_memory_bytes{$i}`, "{{instance}}"}}},
		{"Found in the page cache", "percentunit", false, []query{{`sum by (instance) (rate(feedctl_page_cache_hits_total{$i}[$__rate_interval])) / (sum by (instance) (rate(feedctl_page_cache_hits_total{$i}[$__rate_interval])) + sum by (instance) (rate(feedctl_page_cache_misses_total{$i}[$__rate_interval])))`, "{{instance}}"}}},
		{"Size of the page cache", "bytes", false, []query{{`feedctl_page_cache_bytes{$i}`, "{{instance}}"}}},
		{"Trouble of the page cache", "none", false, []query{
			{`feedctl_page_cache_off{$i}`, "{{instance}}, off"},
			{`increase(feedctl_page_cache_errors_total{$i}[$__rate_interval])`, "{{instance}}, disk errors"},
			{`increase(feedctl_page_cache_damaged_total{$i}[$__rate_interval])`, "{{instance}}, damaged pages"},
		}},
		{"Pages in the cache", "none", false, []query{{`feedctl_page_cache_pages{$i}`, "{{instance}}"}}},
		{"Pages added and removed", "ops", false, []query{
			{`rate(feedctl_page_cache_added_total{$i}[$__rate_interval])`, "{{instance}}, added"}, {`rate(feedctl_page_cache_evicted_total{$i}[$__rate_interval])`, "{{instance}}, removed"},
		}},
	}},
	{"Retention and copies", []panel{
		{"Since the last round", "s", false, []query{{`time() - feedctl_maintain_last_round_timestamp_seconds{$i}`, "{{instance}}"}}},
		{"Failures", "none", false, []query{{`increase(feedctl_maintain_failures_total{$i}[1h])`, "{{instance}}, per hour"}, {`feedctl_maintain_feeds{$i}`, "{{instance}}, feeds with a policy"}}},
		{"Snapshots and pages", "none", false, []query{
			{`increase(feedctl_maintain_snapshots_total{$i}[1h])`, "{{instance}}, snapshots made per hour"},
			{`increase(feedctl_maintain_snapshots_deleted_total{$i}[1h])`, "{{instance}}, snapshots deleted per hour"},
			{`increase(feedctl_maintain_pages_pruned_total{$i}[1h])`, "{{instance}}, pages pruned per hour"},
		}},
		{"Pruned", "Bps", false, []query{{`rate(feedctl_maintain_bytes_pruned_total{$i}[$__rate_interval])`, "{{instance}}"}}},
		{"Since the copy was complete", "s", false, []query{{`time() - feedctl_copy_last_complete_timestamp_seconds{$i}`, "{{instance}}"}}},
		{"Copied", "ops", false, []query{
			{`rate(feedctl_copy_entities_total{$i}[$__rate_interval])`, "{{instance}}, entities"},
			{`rate(feedctl_copy_pages_total{$i}[$__rate_interval])`, "{{instance}}, pages"},
			{`rate(feedctl_copy_snapshot_pages_total{$i}[$__rate_interval])`, "{{instance}}, pages of snapshots"},
		}},
		{"Size of what is copied", "Bps", false, []query{{`rate(feedctl_copy_bytes_total{$i}[$__rate_interval])`, "{{instance}}"}}},
		{"Feeds in the copy", "none", false, []query{{`feedctl_copy_feeds{$i}`, "{{instance}}"}}},
	}},
	{"Bridges and outbox", []panel{
		{"Rows and documents read", "ops", false, []query{
			{`rate(feedctl_bridge_rows_total{$i}[$__rate_interval])`, "{{instance}}, rows"},
			{`rate(feedctl_bridge_documents_read_total{$i}[$__rate_interval])`, "{{instance}}, documents"},
			{`rate(feedctl_bridge_superseded_total{$i}[$__rate_interval])`, "{{instance}}, superseded"},
		}},
		{"Pending", "none", false, []query{{`feedctl_bridge_pending{$i} >= 0`, "{{instance}}"}}},
		{"Since the source and the feed changed", "s", false, []query{
			{`time() - feedctl_bridge_last_poll_timestamp_seconds{$i}`, "{{instance}}, last poll"}, {`time() - feedctl_bridge_last_publish_timestamp_seconds{$i}`, "{{instance}}, last publish"},
		}},
		{"Requests and repetitions", "ops", false, []query{
			{`rate(feedctl_bridge_requests_total{$i}[$__rate_interval])`, "{{instance}}, requests"},
			{`rate(feedctl_bridge_repeated_total{$i}[$__rate_interval])`, "{{instance}}, repeated rows"},
			{`rate(feedctl_bridge_rewinds_total{$i}[$__rate_interval])`, "{{instance}}, rewinds"},
		}},
		{"Waiting in the outbox", "none", false, []query{{`max by (feed) (feedctl_outbox_waiting_rows{$i})`, "{{feed}}"}}},
		{"Size of what waits in the outbox", "bytes", false, []query{{`max by (feed) (feedctl_outbox_waiting_bytes{$i})`, "{{feed}}"}}},
		{"Moved from the outbox", "Bps", false, []query{{`sum by (feed) (rate(feedctl_outbox_moved_bytes_total{$i}[$__rate_interval]))`, "{{feed}}"}}},
		{"Runners", "none", false, []query{{`sum by (feed) (feedctl_outbox_working{$i})`, "{{feed}}"}}},
		{"Ages in the outbox", "s", false, []query{
			{`max(feedctl_outbox_oldest_transaction_seconds{$i})`, "oldest transaction"}, {`time() - max by (feed) (feedctl_outbox_last_move_timestamp_seconds{$i})`, "since rows of {{feed}} were moved"},
		}},
	}},
	{"Jobs", []panel{
		{"Jobs by state", "none", false, []query{{`sum by (state) (max by (namespace, kind, state) (feedctl_jobs{$i}))`, "{{state}}"}}},
		{"Pending", "none", false, []query{{`sum by (namespace) (max by (namespace, kind, state) (feedctl_jobs_pending{$i}))`, "{{namespace}}"}, {`max by (namespace, job) (feedctl_job_pending{$i})`, "{{namespace}}/{{job}}"}}},
		{"Lag", "s", false, []query{
			{`histogram_quantile(0.95, max by (le, namespace) (feedctl_jobs_lag_seconds_bucket{$i}))`, "95 % of {{namespace}}"}, {`max by (namespace, job) (feedctl_job_lag_seconds{$i})`, "{{namespace}}/{{job}}"},
		}},
		{"Runs ended", "ops", false, []query{{`sum by (kind, end) (rate(feedctl_job_runs_total{$i}[$__rate_interval]))`, "{{kind}} {{end}}"}}},
		{"Start delay, 95 %", "s", false, []query{{`histogram_quantile(0.95, sum by (le, namespace) (rate(feedctl_job_start_delay_seconds_bucket{$i}[$__rate_interval])))`, "{{namespace}}"}}},
		{"Slots", "none", false, []query{{`max by (node, use) (feedctl_node_slots{$i})`, "{{node}} {{use}}"}}},
		{"Lease", "s", false, []query{{`feedctl_node_lease_remaining_seconds{$i}`, "{{node}}"}, {`max by (node) (feedctl_node_heard_seconds{$i})`, "since {{node}} was heard from"}}},
		{"Nodes", "none", false, []query{{`sum(max by (node) (feedctl_node_alive{$i}))`, "alive"}, {`sum(increase(feedctl_job_adoptions_total{$i}[1h]))`, "jobs adopted per hour"}}},
		{"Time to heal, 95 %", "s", false, []query{{`histogram_quantile(0.95, sum by (le) (rate(feedctl_job_heal_seconds_bucket{$i}[1h])))`, "of lost nodes"}}},
		{"Rounds of the scheduler, 95 %", "s", false, []query{{`histogram_quantile(0.95, sum by (le, loop) (rate(feedctl_scheduler_tick_seconds_bucket{$i}[$__rate_interval])))`, "{{loop}}"}}},
		{"Errors with the database of jobs", "ops", false, []query{{`sum by (instance, loop) (rate(feedctl_scheduler_db_errors_total{$i}[$__rate_interval]))`, "{{instance}} {{loop}}"}}},
		{"Shares", "none", false, []query{
			{`max by (namespace) (feedctl_tenant_shares{$i})`, "{{namespace}}, shares"}, {`max by (namespace) (feedctl_tenant_waiting{$i})`, "{{namespace}}, waiting jobs"},
		}},
		{"Use", "s", false, []query{{`max by (namespace) (feedctl_tenant_usage_seconds{$i})`, "{{namespace}}"}}},
		{"Servers", "none", false, []query{{`max by (state) (feedctl_origins{$i})`, "{{state}}"}, {`count by (origin) (feedctl_origin_state{$i} == 2)`, "{{origin}} is down"}}},
		{"Connections to servers", "none", false, []query{{`sum by (origin) (feedctl_origin_connections{$i})`, "{{origin}}"}}},
		{"Pauses between requests", "s", false, []query{{`max by (origin) (feedctl_origin_delay_seconds{$i})`, "{{origin}}"}}},
		{"Idle jobs woken", "ops", false, []query{{`sum by (origin, how) (rate(feedctl_watch_wakeups_total{$i}[$__rate_interval]))`, "{{origin}}, {{how}}"}}},
		{"Age of watches", "s", false, []query{{`max by (origin) (feedctl_watch_age_seconds{$i})`, "{{origin}}"}}},
		{"Without metrics", "none", false, []query{
			{`max(feedctl_jobs_left_out{$i})`, "jobs"}, {`max(feedctl_namespaces_left_out{$i})`, "namespaces"}, {`max(feedctl_origins_left_out{$i})`, "servers"},
		}},
	}},
	{"Processes", []panel{
		{"Memory", "bytes", false, []query{{`process_resident_memory_bytes{$i,job=~".*feedctl.*"}`, "{{instance}}"}}},
		{"Processor", "none", false, []query{{`rate(process_cpu_seconds_total{$i,job=~".*feedctl.*"}[$__rate_interval])`, "{{instance}}"}}},
		{"Open files", "none", false, []query{{`process_open_fds{$i,job=~".*feedctl.*"}`, "{{instance}}"}}},
	}},
}
