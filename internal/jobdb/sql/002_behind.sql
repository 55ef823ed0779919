-- SQLite adds a condition only together with a column, and only if all rows fulfil it. So there are no
-- jobs while the columns are added.
CREATE TABLE @job_before AS SELECT * FROM @job;

DELETE FROM @job;

-- Of a transient job: it is tried again after errors.
ALTER TABLE @job ADD COLUMN retry boolean NOT NULL DEFAULT false;

-- It has metrics of its own.
ALTER TABLE @job ADD COLUMN metrics boolean NOT NULL DEFAULT false;

-- The origin because of which its last run crashed, if one was.
ALTER TABLE @job ADD COLUMN blamed text NOT NULL DEFAULT '';

-- Since when it has not caught up; 0 if it has, or has ended.
ALTER TABLE @job ADD COLUMN behind bigint NOT NULL DEFAULT 0
	CHECK ((state IN ('idle', 'completed', 'failed')) = (behind = 0));

-- When its lost node was last heard from; 0 if it has run since.
ALTER TABLE @job ADD COLUMN orphaned bigint NOT NULL DEFAULT 0;

-- When a run last failed, with which error, and what the user can do about it.
ALTER TABLE @job ADD COLUMN failed bigint NOT NULL DEFAULT 0;
ALTER TABLE @job ADD COLUMN failure text NOT NULL DEFAULT '';
ALTER TABLE @job ADD COLUMN hint text NOT NULL DEFAULT '';

INSERT INTO @job (id, namespace, kind, labels, document, generation, created, work, target, source_origin, target_origin, follow, transient, rank, node, placement,
	state, paused, epoch, owner, observed, wanted, seen, not_before, errors, reason, started, stopped, events, succeeded, since,
	watch_type, watch_server, watch_credential, watch_node, watch_name, watch_state, swept, behind)
SELECT id, namespace, kind, labels, document, generation, created, work, target, source_origin, target_origin, follow, transient, rank, node, placement,
	state, paused, epoch, owner, observed, wanted, seen, not_before, errors, reason, started, stopped, events, succeeded, since,
	watch_type, watch_server, watch_credential, watch_node, watch_name, watch_state, swept,
	CASE WHEN state IN ('idle', 'completed', 'failed') THEN 0 WHEN since > 0 THEN since ELSE created END
FROM @job_before;

DROP TABLE @job_before;

CREATE INDEX job_metrics ON @job (namespace, id) WHERE metrics;

-- When it sent its last heartbeat.
ALTER TABLE @node ADD COLUMN beat bigint NOT NULL DEFAULT 0;
