-- A database that version 1 of the tables was made for, with a few rows, as its program wrote them.
CREATE TABLE @version (version bigint NOT NULL);
INSERT INTO @version (version) VALUES (1);

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

INSERT INTO @job (id, namespace, kind, labels, document, generation, created, work, target, source_origin, target_origin, follow, transient, rank, node, placement, state, paused, epoch, owner, observed, wanted, seen, not_before, errors, reason, started, stopped, events, succeeded, since, watch_type, watch_server, watch_credential, watch_node, watch_name, watch_state, swept) VALUES
	('shop/running', 'shop', 'fake', '', '{"namespace":"shop","name":"running","kind":"fake","source":"s-running","target":"t-running","follow":true}', 1, 1735783094494000, 's-running t-running', 't-running', '', '', TRUE, FALSE, 0, '', '%', 'running', FALSE, 1735783094494001, 'node-vgwxxt7f7qriazmk', 1, 1, 0, 0, 0, '', 1735783094494000, 0, 2, 0, 1735783094494000, '', '', '', '', '', '', 0),
	('shop/idle', 'shop', 'fake', '', '{"namespace":"shop","name":"idle","kind":"fake","source":"s-idle","target":"t-idle","follow":true}', 1, 1735783094496000, 's-idle t-idle', 't-idle', '', '', TRUE, FALSE, 0, '', '%', 'idle', FALSE, 1735783094496001, NULL, 1, 1, 1, 0, 0, '', 1735783094497000, 1735783094499000, 3, 1735783094499000, 1735783094499000, '', '', '', '', '', '', 0),
	('shop/crashing', 'shop', 'fake', '', '{"namespace":"shop","name":"crashing","kind":"fake","source":"s-crashing","target":"t-crashing","follow":true}', 1, 1735783094500000, 's-crashing t-crashing', 't-crashing', '', '', TRUE, FALSE, 0, '', '%', 'pending', FALSE, 1735783094500001, NULL, 1, 1, 0, 1735783123817188, 1, 'connection refused', 1735783094502000, 1735783094504000, 3, 0, 1735783094504000, '', '', '', '', '', '', 0),
	('shop/completed', 'shop', 'fake', '', '{"namespace":"shop","name":"completed","kind":"fake","source":"s-completed","target":"t-completed"}', 1, 1735783094505000, 's-completed t-completed', 't-completed', '', '', FALSE, FALSE, 0, '', '%', 'completed', FALSE, 1735783094505001, NULL, 1, 1, 0, 0, 0, '', 1735783094506000, 1735783094508000, 3, 1735783094508000, 1735783094508000, '', '', '', '', '', '', 0),
	('shop/failed', 'shop', 'fake', '', '{"namespace":"shop","name":"failed","kind":"fake","source":"s-failed","target":"t-failed","follow":true}', 1, 1735783094509000, 's-failed t-failed', 't-failed', '', '', TRUE, FALSE, 0, '', '%', 'failed', FALSE, 1735783094509001, NULL, 1, 1, 0, 0, 1, 'there is a gap', 1735783094510000, 1735783094512000, 3, 0, 1735783094512000, '', '', '', '', '', '', 0),
	('shop/pending', 'shop', 'fake', '', '{"namespace":"shop","name":"pending","kind":"fake","source":"s-pending","target":"t-pending","follow":true}', 1, 1735783094513000, 's-pending t-pending', 't-pending', '', '', TRUE, FALSE, 0, '', '%', 'pending', FALSE, 1735783094513000, NULL, 0, 1, 0, 0, 0, '', 0, 0, 1, 0, 1735783094513000, '', '', '', '', '', '', 0),
	('shop/paused', 'shop', 'fake', '', '{"namespace":"shop","name":"paused","kind":"fake","source":"s-paused","target":"t-paused","follow":true,"paused":true}', 1, 1735783094514000, 's-paused t-paused', 't-paused', '', '', TRUE, FALSE, 0, '', '%', 'paused', TRUE, 1735783094514000, NULL, 0, 1, 0, 0, 0, '', 0, 0, 1, 0, 1735783094514000, '', '', '', '', '', '', 0);
INSERT INTO @event (job, number, at, type, node, reason) VALUES
	('shop/running', 1, 1735783094494000, 'added', '', ''),
	('shop/running', 2, 1735783094494000, 'started', 'old', ''),
	('shop/idle', 1, 1735783094496000, 'added', '', ''),
	('shop/idle', 2, 1735783094497000, 'started', 'old', ''),
	('shop/idle', 3, 1735783094499000, 'stopped', 'old', ''),
	('shop/crashing', 1, 1735783094500000, 'added', '', ''),
	('shop/crashing', 2, 1735783094502000, 'started', 'old', ''),
	('shop/crashing', 3, 1735783094504000, 'crashed', 'old', 'connection refused'),
	('shop/completed', 1, 1735783094505000, 'added', '', ''),
	('shop/completed', 2, 1735783094506000, 'started', 'old', ''),
	('shop/completed', 3, 1735783094508000, 'completed', 'old', ''),
	('shop/failed', 1, 1735783094509000, 'added', '', ''),
	('shop/failed', 2, 1735783094510000, 'started', 'old', ''),
	('shop/failed', 3, 1735783094512000, 'failed', 'old', 'there is a gap'),
	('shop/pending', 1, 1735783094513000, 'added', '', ''),
	('shop/paused', 1, 1735783094514000, 'added', '', '');
INSERT INTO @node (incarnation, name, slots, version, labels, started, expires, lost) VALUES
	('node-vgwxxt7f7qriazmk', 'old', 10, '', '', 1735783094493000, 1735783106493000, FALSE);
INSERT INTO @tenant (namespace, shares, max_running, usage, charged) VALUES
	('shop', 100, 0, 0.007999884476799148, 1735783094512000);
INSERT INTO @stats (job, updated, entities, bytes, repeated, rejected, pending, lag, position, source_position) VALUES
	('shop/idle', 1735783094500000, 5, 50, 0, 0, 0, 0, '7', '');
INSERT INTO @setting (name, value) VALUES
	('max-churn', '7');
