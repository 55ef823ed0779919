package main

var alertsOfCommands = []alert{
	{
		name:       "FeedctlConsumerBehind",
		expression: `feedctl_consume_lag_seconds > 300`,
		hold:       "10m", severity: warning,
		summary: "Consumer {{ $labels.instance }} is {{ $value | humanizeDuration }} behind its feed.",
		about:   "The feed has entities that are older than that and are not in the sink. The lag grows while the source or the sink is unavailable.",
		remedy: "`GET /readyz` at the address of `--metrics` says whether the source and the sink respond. If `feedctl_consume_entities_total` rises, the " +
			"consumer is catching up: raise `--batch-entities`, or look for what slows down the sink.",
		fires: example{[]series{{`feedctl_consume_lag_seconds{instance="c"}`, "0+60x30"}}, "30m", map[string]string{"instance": "c"}, "Consumer c is 30m 0s behind its feed."},
		quiet: example{series: []series{{`feedctl_consume_lag_seconds{instance="c"}`, "0x20 900x5 3x5"}}, at: "30m"},
	},
	{
		name: "FeedctlConsumerStuck",
		expression: `time() - (feedctl_consume_caught_up_timestamp_seconds > feedctl_consume_last_commit_timestamp_seconds
or feedctl_consume_last_commit_timestamp_seconds or feedctl_consume_caught_up_timestamp_seconds
or process_start_time_seconds and on (job, instance) feedctl_consume_entities_total) > 900`,
		hold: "5m", severity: critical,
		summary: "Consumer {{ $labels.instance }} has neither committed nor reached the end of its feed for {{ $value | humanizeDuration }}.",
		about:   "It hangs, or the feed does not exist, or the source or the sink is unavailable, perhaps since the start. The lag may be 0, since the consumer cannot know what it cannot read.",
		remedy:  "The log, and `GET /readyz` at the address of `--metrics`, say what it is waiting for.",
		fires: example{
			[]series{
				{`feedctl_consume_last_commit_timestamp_seconds{instance="c"}`, "0x40"},
				{`feedctl_consume_caught_up_timestamp_seconds{instance="c"}`, "0+60x10 600x30"},
				{`process_start_time_seconds{instance="c"}`, "0x40"}, {`feedctl_consume_entities_total{instance="c"}`, "7x40"},
			}, "40m", map[string]string{"instance": "c"}, "Consumer c has neither committed nor reached the end of its feed for 30m 0s.",
		},
		more: []example{{
			[]series{{`process_start_time_seconds{instance="new"}`, "0x40"}, {`feedctl_consume_entities_total{instance="new"}`, "0x40"}}, "40m",
			map[string]string{"instance": "new"}, "Consumer new has neither committed nor reached the end of its feed for 40m 0s.",
		}},
		quiet: example{series: []series{
			{`feedctl_consume_last_commit_timestamp_seconds{instance="idle"}`, "0x40"},
			{`feedctl_consume_caught_up_timestamp_seconds{instance="idle"}`, "0+60x40"},
			{`feedctl_consume_last_commit_timestamp_seconds{instance="busy"}`, "0+60x40"},
			{`process_start_time_seconds{instance="busy"}`, "0x40"}, {`feedctl_consume_entities_total{instance="busy"}`, "0+1x40"},
			{`process_start_time_seconds{instance="serve"}`, "0x40"},
		}, at: "40m"},
	},
	{
		name:       "FeedctlConsumerRejects",
		expression: `increase(feedctl_consume_quarantined_total[15m]) + increase(feedctl_consume_refused_total[15m]) > 0`,
		severity:   warning,
		summary:    "The sink of consumer {{ $labels.instance }} has rejected {{ $value | humanize }} entities.",
		about:      "Either the entities do not fit the columns of the table, and are in the table `feedctl_quarantine`, or the target refused them.",
		remedy:     "The reasons are in that table or, if the target refused the entities, in the log. Correct the columns or the data, and publish the entities again.",
		fires: example{
			[]series{{`feedctl_consume_quarantined_total{instance="c"}`, "0+1x30"}, {`feedctl_consume_refused_total{instance="c"}`, "0x30"}}, "30m",
			map[string]string{"instance": "c"}, "The sink of consumer c has rejected 15 entities.",
		},
		quiet: example{series: []series{{`feedctl_consume_quarantined_total{instance="c"}`, "7x30"}, {`feedctl_consume_refused_total{instance="c"}`, "1x30"}}, at: "30m"},
	},
	{
		name:       "FeedctlConsumerGap",
		expression: `increase(feedctl_consume_gaps_total[1h]) > 0`,
		severity:   warning,
		summary:    "Consumer {{ $labels.instance }} has met a gap.",
		about:      "The feed no longer had the entities that follow the position of the consumer, so the consumer did what `--on-gap` says.",
		remedy:     "With `replay`, entities may have been missed: `feedctl reconcile` says which. Keep the feed for longer than a consumer may be away: `feedctl retain FEED --keep-age`.",
		fires:      example{[]series{{`feedctl_consume_gaps_total{instance="c"}`, "0x10 1x20"}}, "30m", map[string]string{"instance": "c"}, "Consumer c has met a gap."},
		quiet:      example{series: []series{{`feedctl_consume_gaps_total{instance="c"}`, "0x30"}}, at: "30m"},
	},
	{
		name:       "FeedctlCopyBehind",
		expression: `time() - feedctl_copy_last_complete_timestamp_seconds > 900`,
		hold:       "5m", severity: warning,
		summary: "The copy of {{ $labels.instance }} was last complete {{ $value | humanizeDuration }} ago.",
		about:   "The target does not have what was published since then.",
		remedy:  "`GET /readyz` at the address of `--metrics` says whether both stores respond; the log has the errors.",
		fires:   example{[]series{{`feedctl_copy_last_complete_timestamp_seconds{instance="k"}`, "0x30"}}, "30m", map[string]string{"instance": "k"}, "The copy of k was last complete 30m 0s ago."},
		quiet:   example{series: []series{{`feedctl_copy_last_complete_timestamp_seconds{instance="k"}`, "0+60x30"}}, at: "30m"},
	},
	{
		name: "FeedctlClientFailures",
		expression: `sum by (job, instance) (rate(feedctl_http_client_failures_total[10m]))
/ sum by (job, instance) (rate(feedctl_http_client_requests_total[10m])) > 0.5`,
		hold: "15m", severity: warning,
		summary: "{{ $value | humanizePercentage }} of the requests of {{ $labels.instance }} to other servers fail.",
		about:   "A server that the process needs is unavailable or overloaded, or refuses the requests because there are too many. The requests are repeated.",
		remedy:  "`GET /readyz` at the address of `--metrics` names the server; the log has the errors.",
		fires: example{
			[]series{
				{`feedctl_http_client_requests_total{job="feedctl",instance="c",method="GET"}`, "0+4x40"},
				{`feedctl_http_client_failures_total{job="feedctl",instance="c",method="GET"}`, "0+3x40"},
			}, "40m", map[string]string{"job": "feedctl", "instance": "c"}, "75% of the requests of c to other servers fail.",
		},
		quiet: example{series: []series{
			{`feedctl_http_client_requests_total{job="feedctl",instance="c",method="GET"}`, "0+4x40"},
			{`feedctl_http_client_failures_total{job="feedctl",instance="c",method="GET"}`, "0+1x40"},
		}, at: "40m"},
	},
}
