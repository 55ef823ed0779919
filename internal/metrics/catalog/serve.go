package catalog

var process = Group{
	Title:    "Every process",
	Commands: []string{"serve", "consume", "publish", "bridge couchdb", "bridge kinto", "outbox run", "copy", "restore", "jobs worker", "jobs standalone"},
	Text: "Every process also has the metrics of the Go runtime (`go_…`) and of its process (`process_…`, such as " +
		"`process_resident_memory_bytes` and `process_start_time_seconds`). Requests to stores in S3 are counted only by `serve`.",
	Metrics: []Metric{
		{Name: "build_info", Type: Gauge, Labels: []string{"version"}, Help: "Always 1; the label has the version of feedctl."},
		{Name: "http_client_requests_total", Type: Counter, Labels: []string{"method"}, Help: "HTTP requests that were sent, including repeated ones."},
		{Name: "http_client_failures_total", Type: Counter, Labels: []string{"method"}, Help: "HTTP requests without a response, or with one that says that the server failed or is busy. They are retried or end the command."},
		{Name: "log_messages_total", Type: Counter, Labels: []string{"level"}, Help: "Log messages of level warn and above, whether or not they were shown. A failure that is retried is a warning."},
	},
}

var served = Group{
	Title:    "HTTP server",
	Commands: []string{"serve"},
	Metrics: []Metric{
		{Name: "http_requests_total", Type: Counter, Labels: []string{"route", "method", "code"}, Help: "Requests answered."},
		{
			Name: "http_request_duration_seconds", Type: Histogram, Labels: []string{"route"},
			Help:    "Time from a request's header to the end of its response, excluding requests that waited for a change.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 60},
		},
		{Name: "http_response_bytes_total", Type: Counter, Labels: []string{"route"}, Help: "Bytes of response bodies."},
		{Name: "http_waiters", Type: Gauge, Help: "Requests waiting for a feed to change."},
		{Name: "published_entities_total", Type: Counter, Labels: []string{"feed"}, Help: "Entities that were published through this server, by feed; feeds beyond the first 10,000 count as \"other\"."},
		{Name: "duplicate_entities_total", Type: Counter, Labels: []string{"feed"}, Help: "Entities that were in the feed already when they were published."},
		{Name: "tls_certificate_expiry_timestamp_seconds", Type: Gauge, Help: "When the certificate of the server expires, with --tls-cert."},
	},
}

var feeds = Group{
	Title:    "Feeds",
	Commands: []string{"serve"},
	Text: "These metrics are updated by requests and, after a scrape, by a background task that reads 50 feeds a second. A scrape waits at most 50 ms " +
		"for it, so with many feeds a value may be a few minutes old. Several servers of a store have the same feeds: take the maximum.",
	Metrics: []Metric{
		{Name: "feed_newest_page", Type: Gauge, Labels: []string{"feed"}, Help: "Number of the feed's newest page."},
		{Name: "feed_last_modified_timestamp_seconds", Type: Gauge, Labels: []string{"feed"}, Help: "Last-Modified of the feed's last entity. Its age is time() minus this."},
		{Name: "feeds", Type: Gauge, Help: "Feeds in the store."},
		{Name: "feeds_left_out", Type: Gauge, Help: "Feeds in the store without metrics of their own: not polled yet, unreadable, or beyond the first 10,000."},
	},
}

var readers = Group{
	Title:    "Readers",
	Commands: []string{"serve"},
	Text: "Readers that announce a name, as `consume` does, have series of their own: the 1,000 that were seen last. The lag of a reader is " +
		"`feedctl_feed_last_modified_timestamp_seconds` minus `feedctl_reader_position_timestamp_seconds`. What readers announce is not verified.",
	Metrics: []Metric{
		{Name: "readers", Type: Gauge, Help: "Readers of feeds that are remembered: at most 4,096."},
		{Name: "readers_left_out", Type: Gauge, Help: "Readers with a name that have no metrics of their own, since there are too many."},
		{Name: "reader_position_timestamp_seconds", Type: Gauge, Labels: []string{"feed", "reader", "user"}, Help: "Last-Modified of the last entity that the reader has committed, as it announced."},
		{Name: "reader_seen_timestamp_seconds", Type: Gauge, Labels: []string{"feed", "reader", "user"}, Help: "When the reader last asked for something."},
	},
}

var pages = Group{
	Title:    "Store and page cache",
	Commands: []string{"serve"},
	Text:     "The metrics of the page cache exist only with `--cache`, and the metric of the memory for pages only if pages are read ahead.",
	Metrics: []Metric{
		{
			Name: "store_operation_duration_seconds", Type: Histogram, Labels: []string{"operation"},
			Help:    "Duration of operations on the store; for get, until the body is open.",
			Buckets: []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
		},
		{Name: "store_errors_total", Type: Counter, Labels: []string{"operation"}, Help: "Operations on the store that failed."},
		{Name: "store_requests_total", Type: Counter, Labels: []string{"operation"}, Help: "Requests sent to the store's server, including failed ones. Only for stores in S3, where they cost time and money."},
		{Name: "corrupt_objects_total", Type: Counter, Help: "Objects read from the store whose body or metadata was corrupt."},
		{Name: "pages_fetched_total", Type: Counter, Labels: []string{"why"}, Help: "Pages read from the store into memory, because they were requested, or ahead of requests."},
		{Name: "page_memory_bytes", Type: Gauge, Help: "Memory used by pages read from the store."},
		{Name: "page_cache_hits_total", Type: Counter, Help: "Requested pages that were in the cache on disk."},
		{Name: "page_cache_misses_total", Type: Counter, Help: "Requested pages that were not in the cache on disk."},
		{Name: "page_cache_bytes", Type: Gauge, Help: "Size of the cache on disk."},
		{Name: "page_cache_pages", Type: Gauge, Help: "Pages in the cache on disk."},
		{Name: "page_cache_off", Type: Gauge, Help: "1 while the cache is disabled because of a disk error."},
		{Name: "page_cache_added_total", Type: Counter, Help: "Pages added to the cache on disk."},
		{Name: "page_cache_evicted_total", Type: Counter, Help: "Pages removed from the cache to make room."},
		{Name: "page_cache_damaged_total", Type: Counter, Help: "Pages removed from the cache because they were damaged."},
		{Name: "page_cache_errors_total", Type: Counter, Help: "Errors of the disk that holds the cache."},
	},
}

var maintenance = Group{
	Title:    "Retention policies",
	Commands: []string{"serve --maintain"},
	Metrics: []Metric{
		{Name: "maintain_feeds", Type: Gauge, Help: "Feeds with a retention policy, in the last round."},
		{Name: "maintain_snapshots_total", Type: Counter, Help: "Snapshots that were made."},
		{Name: "maintain_snapshots_deleted_total", Type: Counter, Help: "Old snapshots that were deleted."},
		{Name: "maintain_pages_pruned_total", Type: Counter, Help: "Pages that were pruned."},
		{Name: "maintain_bytes_pruned_total", Type: Counter, Help: "Bytes of the pages that were pruned."},
		{Name: "maintain_failures_total", Type: Counter, Help: "Runs of a policy that failed; the log has the errors."},
		{Name: "maintain_last_round_timestamp_seconds", Type: Gauge, Help: "When a round over all feeds last ended."},
	},
}
