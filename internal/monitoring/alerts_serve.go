package main

var alertsOfServe = []alert{
	{
		name:       "FeedctlDown",
		expression: `up{job=~".*feedctl.*"} == 0`,
		hold:       "5m", severity: critical,
		summary: "{{ $labels.instance }} cannot be scraped.",
		about: "Prometheus gets no metrics from a process. The alert covers scrape jobs whose names contain `feedctl`. Consumers and bridges continue " +
			"where they stopped when they run again: nothing is lost, but nothing arrives until then.",
		remedy: "See whether the process runs and what its log ends with. A consumer that ended with exit status 4 has met a gap and needs a decision: " +
			"see `--on-gap`. If the process runs, see whether Prometheus may read the metrics: a server with read credentials requires them.",
		fires: example{[]series{{`up{job="feedctl",instance="a:8080"}`, "0x10"}}, "10m", map[string]string{"job": "feedctl", "instance": "a:8080"}, "a:8080 cannot be scraped."},
		quiet: example{series: []series{{`up{job="feedctl",instance="a:8080"}`, "0x3 1x7"}, {`up{job="node",instance="b"}`, "0x10"}}, at: "10m"},
	},
	{
		name: "FeedctlFeedQuiet",
		expression: `feedctl:feed_age_seconds > 3600
and feedctl:feed_age_seconds > 2 * max_over_time(feedctl:feed_age_seconds[7d] offset 1d)`,
		hold: "10m", severity: warning,
		summary: "Feed {{ $labels.feed }} has had no new entity for {{ $value | humanizeDuration }}, more than twice as long as ever in the week before.",
		about: "A feed is much quieter than usual: its producer, or the source of its producer, may have stopped. What is usual is measured, so a feed of one entity " +
			"a day and one of a thousand a second need no settings. The alert needs a day of history, and ends by itself after two days.",
		remedy: "Check whether the program that publishes to the feed runs, and what its log says. If the silence is intended, silence the alert for the feed.",
		fires: example{
			[]series{{`feedctl_feed_last_modified_timestamp_seconds{job="feedctl",instance="a",feed="zones"}`, "0+60x1800 108000x180"}}, "33h",
			map[string]string{"job": "feedctl", "feed": "zones"}, "Feed zones has had no new entity for 3h 0m 0s, more than twice as long as ever in the week before.",
		},
		quiet: example{
			series: []series{
				{`feedctl_feed_last_modified_timestamp_seconds{job="feedctl",instance="a",feed="slow"}`, "0x720 43200x720 86400x540"},
				{`feedctl_feed_last_modified_timestamp_seconds{job="feedctl",instance="a",feed="new"}`, "_x1700 102000x280"},
			}, at: "33h",
		},
	},
	{
		name: "FeedctlReaderBehind",
		expression: `max by (job, feed) (feedctl_feed_last_modified_timestamp_seconds)
- on (job, feed) group_right () max by (job, feed, reader) (feedctl_reader_position_timestamp_seconds) > 900
and on (job, feed, reader) time() - max by (job, feed, reader) (feedctl_reader_seen_timestamp_seconds) < 86400`,
		hold: "15m", severity: warning,
		summary: "Reader {{ $labels.reader }} is {{ $value | humanizeDuration }} behind feed {{ $labels.feed }}.",
		about: "A consumer that announces its name and position has not committed what was published more than 15 minutes ago. It may have stopped, or be " +
			"too slow. The alert ends a day after the last request of a reader, so that a reader that is gone for good does not keep it firing.",
		remedy: "See whether the consumer runs, and what its log says; the page of the reader in the console shows whether its lag grows. A consumer that runs " +
			"once a day is always behind: run it with `--announce none`.",
		fires: example{
			[]series{
				{`feedctl_feed_last_modified_timestamp_seconds{job="feedctl",instance="a",feed="zones"}`, "2000x60"},
				{`feedctl_reader_position_timestamp_seconds{job="feedctl",instance="a",feed="zones",reader="stock",user=""}`, "1000x60"},
				{`feedctl_reader_seen_timestamp_seconds{job="feedctl",instance="a",feed="zones",reader="stock",user=""}`, "0x60"},
			}, "30m", map[string]string{"job": "feedctl", "feed": "zones", "reader": "stock"}, "Reader stock is 16m 40s behind feed zones.",
		},
		quiet: example{
			series: []series{
				{`feedctl_feed_last_modified_timestamp_seconds{job="feedctl",instance="a",feed="zones"}`, "2000x1500"},
				{`feedctl_reader_position_timestamp_seconds{job="feedctl",instance="a",feed="zones",reader="gone",user=""}`, "1000x1500"},
				{`feedctl_reader_seen_timestamp_seconds{job="feedctl",instance="a",feed="zones",reader="gone",user=""}`, "0x1500"},
				{`feedctl_reader_position_timestamp_seconds{job="feedctl",instance="a",feed="zones",reader="moved",user=""}`, "1000x1500"},
				{`feedctl_reader_position_timestamp_seconds{job="feedctl",instance="b",feed="zones",reader="moved",user=""}`, "2000x1500"},
				{`feedctl_reader_seen_timestamp_seconds{job="feedctl",instance="b",feed="zones",reader="moved",user=""}`, "0+60x1500"},
			}, at: "24h30m",
		},
	},
	{
		name:       "FeedctlFeedsLeftOut",
		expression: `feedctl_feeds_left_out > 0`,
		hold:       "1h", severity: warning,
		summary: "{{ $value }} feeds of {{ $labels.instance }} have no metrics.",
		about:   "Some feeds cannot be read, or there are more than 10,000: [FeedctlFeedQuiet](#feedctlfeedquiet) says nothing about them.",
		remedy:  "`feedctl list STORE` shows the error of each feed that cannot be read; `feedctl doctor STORE` and `feedctl repair` help with such feeds.",
		fires:   example{[]series{{`feedctl_feeds_left_out{instance="a"}`, "2x120"}}, "2h", map[string]string{"instance": "a"}, "2 feeds of a have no metrics."},
		quiet:   example{series: []series{{`feedctl_feeds_left_out{instance="a"}`, "900x30 0x90"}}, at: "2h"},
	},
	{
		name: "FeedctlServerErrors",
		expression: `sum by (job, instance) (rate(feedctl_http_requests_total{code=~"5..",code!="501"}[5m]))
/ sum by (job, instance) (rate(feedctl_http_requests_total[5m])) > 0.05`,
		hold: "10m", severity: critical,
		summary: "{{ $value | humanizePercentage }} of the requests to {{ $labels.instance }} fail.",
		about:   "The requests fail because of the server, not the clients. Consumers retry, and fall behind meanwhile.",
		remedy: "`GET /readyz` names what is wrong, and since when; the log has each error with its cause. 503 means that the store does not respond, " +
			"507 that it is full, 500 that something in it is damaged: run `feedctl doctor STORE`.",
		fires: example{
			[]series{
				{`feedctl_http_requests_total{job="feedctl",instance="a",route="/feeds/{feed}",method="GET",code="503"}`, "0+6x30"},
				{`feedctl_http_requests_total{job="feedctl",instance="a",route="/feeds/{feed}",method="GET",code="200"}`, "0+54x30"},
			}, "30m", map[string]string{"job": "feedctl", "instance": "a"}, "10% of the requests to a fail.",
		},
		quiet: example{
			series: []series{
				{`feedctl_http_requests_total{job="feedctl",instance="a",route="/feeds/{feed}",method="GET",code="404"}`, "0+60x30"},
				{`feedctl_http_requests_total{job="feedctl",instance="a",route="other",method="other",code="501"}`, "0+60x30"},
				{`feedctl_http_requests_total{job="feedctl",instance="a",route="/feeds/{feed}",method="GET",code="503"}`, "0+1x30"},
			}, at: "30m",
		},
	},
	{
		name:       "FeedctlPublishFails",
		expression: `sum by (job, instance, code) (increase(feedctl_http_requests_total{method="POST",code=~"5.."}[10m])) > 0`,
		hold:       "10m", severity: warning,
		summary: "Publishing to {{ $labels.instance }} fails with status {{ $labels.code }}.",
		about:   "Entities are not accepted, and their publishers have to send them again, with the same Content-IDs.",
		remedy:  "507: the store is full. 503: the store does not respond, or the clock of the server is behind the newest entity of the feed; the log says which.",
		fires: example{
			[]series{{`feedctl_http_requests_total{job="feedctl",instance="a",route="/feeds/{feed}",method="POST",code="507"}`, "0+1x30"}}, "30m",
			map[string]string{"job": "feedctl", "instance": "a", "code": "507"}, "Publishing to a fails with status 507.",
		},
		quiet: example{
			series: []series{
				{`feedctl_http_requests_total{job="feedctl",instance="a",route="/feeds/{feed}",method="POST",code="201"}`, "0+1x30"},
				{`feedctl_http_requests_total{job="feedctl",instance="a",route="/feeds/{feed}",method="GET",code="503"}`, "0+1x30"},
				{`feedctl_http_requests_total{job="feedctl",instance="a",route="/feeds/{feed}",method="POST",code="503"}`, "0x10 1x20"},
			}, at: "30m",
		},
	},
	{
		name:       "FeedctlCertificateExpires",
		expression: `feedctl_tls_certificate_expiry_timestamp_seconds - time() < 7 * 86400`,
		hold:       "1h", severity: warning,
		summary: "The certificate of {{ $labels.instance }} expires in {{ $value | humanizeDuration }}.",
		about:   "Once it has expired, clients refuse to connect.",
		remedy:  "Renew the certificate, and restart `serve`: it reads the files only when it starts.",
		fires:   example{[]series{{`feedctl_tls_certificate_expiry_timestamp_seconds{instance="a"}`, "352800x120"}}, "2h", map[string]string{"instance": "a"}, "The certificate of a expires in 4d 0h 0m 0s."},
		quiet:   example{series: []series{{`feedctl_tls_certificate_expiry_timestamp_seconds{instance="a"}`, "2592000x120"}}, at: "2h"},
	},
}
