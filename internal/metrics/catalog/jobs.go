package catalog

var jobCommands = []string{"jobs worker", "jobs standalone"}

var jobsOfAll = Group{
	Title:    "Jobs",
	Commands: jobCommands,
	Text: "These metrics are read from the database at each scrape, so they are the same on all nodes. Take the maximum, not the sum. A value that is not known is " +
		"absent rather than 0. Up to 200 namespaces with jobs have metrics: the first ones by name.",
	Metrics: []Metric{
		{Name: "jobs", Type: Gauge, Labels: []string{"namespace", "kind", "state"}, Help: "Jobs."},
		{Name: "jobs_pending", Type: Gauge, Labels: []string{"namespace", "kind", "state"}, Help: "Entities that these jobs still have to read, as far as known."},
		{Name: "jobs_longest_lag_seconds", Type: Gauge, Labels: []string{"namespace", "kind", "state"}, Help: "The longest lag of one of these jobs, as far as known."},
		{
			Name: "jobs_lag_seconds", Type: Histogram, Labels: []string{"namespace"},
			Help:    "Jobs of the namespace by their current lags. It counts jobs rather than events: do not use rate.",
			Buckets: []float64{1, 5, 15, 60, 300, 1800, 4 * 3600, 24 * 3600},
		},
		{Name: "job_pending", Type: Gauge, Labels: []string{"namespace", "job"}, Help: "Entities that the job still has to read. Only for jobs with \"metrics: true\", up to 1,000."},
		{Name: "job_lag_seconds", Type: Gauge, Labels: []string{"namespace", "job"}, Help: "Age of the oldest change that the job has not processed. Only for jobs with \"metrics: true\", up to 1,000."},
		{Name: "jobs_left_out", Type: Gauge, Help: "Jobs with \"metrics: true\" that have no metrics of their own, as there are too many of them."},
		{Name: "namespaces_left_out", Type: Gauge, Help: "Namespaces without metrics, as there are too many of them."},
		{Name: "tenant_usage_seconds", Type: Gauge, Labels: []string{"namespace"}, Help: "Slot seconds used by ended runs of the namespace, halved every usage-half-life."},
		{Name: "tenant_shares", Type: Gauge, Labels: []string{"namespace"}, Help: "Shares of the namespace."},
		{Name: "tenant_waiting", Type: Gauge, Labels: []string{"namespace"}, Help: "Jobs of the namespace that are due and wait."},
	},
}

var jobsOfNode = Group{
	Title:    "Nodes",
	Commands: jobCommands,
	Text:     "`feedctl_node_alive`, `feedctl_node_heard_seconds` and `feedctl_node_slots` are read from the database, and cover all nodes; the others are about this node.",
	Metrics: []Metric{
		{
			Name: "job_runs_total", Type: Counter, Labels: []string{"kind", "end"},
			Help: "Runs of jobs that have ended on this node: idle, rotated, completed, crashed, failed, found (a check found damage), changed, cancelled (or deleted), stopped, duplicate or lost.",
		},
		{
			Name: "job_start_delay_seconds", Type: Histogram, Labels: []string{"namespace"},
			Help:    "Time from when a job was due to its start on this node. It shows whether the nodes keep up.",
			Buckets: []float64{.1, .25, .5, 1, 2, 5, 10, 30, 60, 300, 1800},
		},
		{Name: "job_adoptions_total", Type: Counter, Help: "Jobs of lost nodes that this node has made due again."},
		{
			Name: "job_heal_seconds", Type: Histogram,
			Help:    "Time from when a lost node was last heard from to the start of one of its jobs on this node.",
			Buckets: []float64{5, 10, 15, 20, 25, 30, 60, 300, 1800},
		},
		{
			Name: "scheduler_tick_seconds", Type: Histogram, Labels: []string{"loop"},
			Help:    "Time that one round of a loop of this node takes, such as heartbeat, admit and watch.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 30},
		},
		{Name: "scheduler_db_errors_total", Type: Counter, Labels: []string{"loop"}, Help: "Rounds of a loop that failed, mostly because of the database of jobs."},
		{Name: "node_lease_remaining_seconds", Type: Gauge, Labels: []string{"node"}, Help: "Time until the lease of this node expires, by its own clock. If it is not above 0, the jobs of the node run elsewhere, or soon will."},
		{Name: "node_alive", Type: Gauge, Labels: []string{"node"}, Help: "1 if the lease of the node has not expired."},
		{Name: "node_heard_seconds", Type: Gauge, Labels: []string{"node"}, Help: "Time since the node was last heard from."},
		{Name: "node_slots", Type: Gauge, Labels: []string{"node", "use"}, Help: "Slots of the node, used or free."},
	},
}

var origins = Group{
	Title:    "Origins",
	Commands: jobCommands,
	Text: "Up to 500 of the servers that jobs use have metrics, those in trouble first. The states and ages are read from the database. Connections " +
		"through a proxy are not counted.",
	Metrics: []Metric{
		{Name: "origins", Type: Gauge, Labels: []string{"state"}, Help: "Servers that jobs use, by state: up, down, or waits (the server has asked its clients to wait)."},
		{Name: "origin_state", Type: Gauge, Labels: []string{"origin"}, Help: "0 if the server is up, 1 if it has asked its clients to wait, 2 if it is down."},
		{Name: "origin_delay_seconds", Type: Gauge, Labels: []string{"origin"}, Help: "Time that each job of this node leaves between two requests, because the server has refused some as too many."},
		{Name: "origin_connections", Type: Gauge, Labels: []string{"origin"}, Help: "HTTP connections of this node."},
		{Name: "origins_left_out", Type: Gauge, Help: "Servers without metrics of their own, as there are too many of them."},
		{Name: "watch_wakeups_total", Type: Counter, Labels: []string{"origin", "how"}, Help: "Idle jobs that this node has woken: by event, a change that a watch has noticed, or by sweep, because no working watch covers them."},
		{Name: "watch_age_seconds", Type: Gauge, Labels: []string{"origin"}, Help: "Time since all changes of the origin were last known to have woken their jobs; +Inf if they never were."},
	},
}
