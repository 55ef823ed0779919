-- A job, and where it stands. Times are microseconds since 1970 by the database's clock; 0 is never.
CREATE TABLE @job (
	id            text    NOT NULL PRIMARY KEY, -- NAMESPACE/NAME
	namespace     text    NOT NULL,
	kind          text    NOT NULL,
	labels        text    NOT NULL,             -- a line NAME=VALUE for each, after an empty one
	document      text    NOT NULL,             -- JSON, as applied
	generation    bigint  NOT NULL,             -- how often the document was changed
	created       bigint  NOT NULL,
	work          text    NOT NULL,             -- identifies what the job does
	target        text    NOT NULL,             -- identifies what it writes to; '' if it only reads
	source_origin text    NOT NULL,
	target_origin text    NOT NULL,
	follow        boolean NOT NULL,
	transient     boolean NOT NULL,
	rank          bigint  NOT NULL,             -- how many jobs are to run before, one after another
	node          text    NOT NULL,             -- the name of the node that it is pinned to; '' for any
	placement     text    NOT NULL,             -- what the labels of its node are LIKE

	state         text    NOT NULL CHECK (state IN ('pending', 'running', 'idle', 'paused', 'completed', 'failed')),
	paused        boolean NOT NULL,             -- as desired
	epoch         bigint  NOT NULL DEFAULT 0,   -- of the last run; fences those before
	owner         text,                         -- the incarnation of the node that runs it
	observed      bigint  NOT NULL DEFAULT 0,   -- the generation of the last run
	wanted        bigint  NOT NULL DEFAULT 1,   -- how often there was a reason to run
	seen          bigint  NOT NULL DEFAULT 0,   -- of these, how many a run has answered
	not_before    bigint  NOT NULL DEFAULT 0,
	errors        bigint  NOT NULL DEFAULT 0,   -- consecutive
	reason        text    NOT NULL DEFAULT '',  -- why the job is in its state
	started       bigint  NOT NULL DEFAULT 0,
	stopped       bigint  NOT NULL DEFAULT 0,
	events        bigint  NOT NULL DEFAULT 0,   -- how many there have been
	succeeded     bigint  NOT NULL DEFAULT 0,
	since         bigint  NOT NULL DEFAULT 0,   -- when it came into its state

	watch_type       text   NOT NULL,            -- what the job waits for when it is idle; '' for nothing
	watch_server     text   NOT NULL,
	watch_credential text   NOT NULL,
	watch_node       text   NOT NULL,            -- the node that has the server's files; '' for any
	watch_name       text   NOT NULL,
	watch_state      text   NOT NULL DEFAULT '', -- of the name, when the watcher woke the job last
	swept            bigint NOT NULL DEFAULT 0,  -- when the job was last woken because no watcher had done so
	CHECK ((state = 'running') = (owner IS NOT NULL)),
	CHECK (state <> 'idle' OR wanted = seen)
);

CREATE INDEX job_due ON @job (namespace, started, rank, id) WHERE state = 'pending';
CREATE INDEX job_list ON @job (namespace, id);
CREATE INDEX job_state ON @job (state, namespace, id);
CREATE INDEX job_owner ON @job (owner) WHERE owner IS NOT NULL;
CREATE INDEX job_ended ON @job (stopped) WHERE transient AND state IN ('completed', 'failed');
CREATE UNIQUE INDEX job_work ON @job (work) WHERE NOT transient AND state NOT IN ('completed', 'failed');
CREATE UNIQUE INDEX job_target ON @job (target) WHERE NOT transient AND target <> '' AND state NOT IN ('completed', 'failed');
CREATE INDEX job_once_work ON @job (work) WHERE transient AND state NOT IN ('completed', 'failed');
CREATE INDEX job_once_target ON @job (target) WHERE transient AND target <> '' AND state NOT IN ('completed', 'failed');

-- The history of a job, the last few events.
CREATE TABLE @event (
	job    text   NOT NULL,
	number bigint NOT NULL,
	at     bigint NOT NULL,
	type   text   NOT NULL,
	node   text   NOT NULL,
	reason text   NOT NULL,
	PRIMARY KEY (job, number)
);

-- A node is a process that runs jobs. A new process, and one whose lease expired, is a new incarnation.
CREATE TABLE @node (
	incarnation text   NOT NULL PRIMARY KEY,
	name        text   NOT NULL,
	slots       bigint NOT NULL,
	version     text   NOT NULL,
	labels      text   NOT NULL, -- with commas between them
	started     bigint NOT NULL,
	expires     bigint NOT NULL,
	lost        boolean NOT NULL DEFAULT false -- its jobs run elsewhere: it cannot come back
);

-- What namespaces have used, for fair share.
CREATE TABLE @tenant (
	namespace text             NOT NULL PRIMARY KEY,
	shares    bigint           NOT NULL DEFAULT 100,
	max_running bigint         NOT NULL DEFAULT 0, -- jobs at the same time; 0: no limit
	usage     double precision NOT NULL DEFAULT 0, -- slot seconds, halved every few minutes
	charged   bigint           NOT NULL DEFAULT 0  -- when usage was last updated
);

CREATE INDEX job_source_origin ON @job (source_origin) WHERE source_origin <> '';
CREATE INDEX job_target_origin ON @job (target_origin) WHERE target_origin <> '';

-- Servers with which runs failed. While an origin is blocked, its jobs wait, but for one that
-- probes it from time to time.
CREATE TABLE @origin (
	origin   text    NOT NULL PRIMARY KEY,
	failures bigint  NOT NULL, -- of different runs, since the last success
	since    bigint  NOT NULL, -- when the first of them was
	open     boolean NOT NULL, -- it is taken to be down
	probe    bigint  NOT NULL, -- the time between two probes
	blocked  bigint  NOT NULL, -- until when no run is to start
	asked    bigint  NOT NULL DEFAULT 0, -- until when the server asked not to be used
	reason   text    NOT NULL
);

CREATE INDEX job_watch ON @job (watch_type, watch_server, watch_credential, watch_node, watch_name) WHERE watch_type <> '';

-- Servers that a node watches for the jobs that wait for their changes. It has the watch
-- until the node leaves or is lost.
CREATE TABLE @watch (
	type       text   NOT NULL,
	server     text   NOT NULL,
	credential text   NOT NULL,
	node       text   NOT NULL,             -- as watch_node
	owner      text   NOT NULL,             -- an incarnation of a node
	position   text   NOT NULL DEFAULT '',  -- in the changes of the server
	checked    bigint NOT NULL DEFAULT 0,   -- changes before have woken their jobs
	error      text   NOT NULL DEFAULT '',  -- why the watch does not work
	PRIMARY KEY (type, server, credential, node)
);

-- How far jobs have come, over all runs. It has no index but its key, so that updates stay cheap.
CREATE TABLE @stats (
	job             text   NOT NULL PRIMARY KEY,
	updated         bigint NOT NULL,
	entities        bigint NOT NULL,
	bytes           bigint NOT NULL,
	repeated        bigint NOT NULL,
	rejected        bigint NOT NULL,
	pending         bigint NOT NULL, -- -1: unknown
	lag             bigint NOT NULL, -- nanoseconds; -1: unknown
	position        text   NOT NULL,
	source_position text   NOT NULL
);

-- What runs of a job have logged, as warnings and errors: the last lines.
CREATE TABLE @log (
	job     text   NOT NULL,
	number  bigint NOT NULL,
	at      bigint NOT NULL,
	level   text   NOT NULL,
	run     bigint NOT NULL, -- epoch
	node    text   NOT NULL,
	message text   NOT NULL,
	attrs   text   NOT NULL, -- JSON, an object of texts
	PRIMARY KEY (job, number)
);

-- What users have set; other settings have their defaults.
CREATE TABLE @setting (
	name  text NOT NULL PRIMARY KEY,
	value text NOT NULL
);

-- One row, locked by transactions that must not run at the same time. It is locked before
-- any other row.
CREATE TABLE @mutex (one bigint NOT NULL);

INSERT INTO @mutex (one) VALUES (1);
