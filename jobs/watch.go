package jobs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// A Watcher wakes idle jobs when they may have something to do.
type Watcher interface {
	// Run watches until ctx ends. The function node returns the current incarnation of the node.
	Run(ctx context.Context, node func() Node) error
}

// A Watched is a server that a node watches. It is comparable.
type Watched struct {
	Type       string `json:"type"`
	Server     string `json:"server"`
	Credential string `json:"credential,omitempty"`
	Node       string `json:"node,omitempty"` // the node that has the server's files
}

func (w Watched) key(args ...any) []any {
	return append([]any{w.Type, w.Server, w.Credential, w.Node}, args...)
}

const (
	// needsWatch is the condition for jobs that wait for changes, or will wait for them.
	needsWatch = "follow AND state IN ('pending', 'running', 'idle')"
	// atKey is the condition for the row of @watch whose key is given by the first four parameters.
	atKey = "type = $1 AND server = $2 AND credential = $3 AND node = $4"
	// watchedBy is the condition for the row of @watch, w, that a job, j, needs.
	watchedBy = "w.type = j.watch_type AND w.server = j.watch_server AND w.credential = j.watch_credential AND w.node = j.watch_node"
	// watchedOrigin is the origin that a job watches or, if it watches local files, their URL.
	watchedOrigin = "CASE WHEN source_origin <> '' THEN source_origin ELSE watch_server END"
	// aliveNodes selects the incarnations whose leases have not expired.
	aliveNodes = "(SELECT incarnation FROM @node WHERE expires > @now)"
)

// Watches updates the set of servers that a node watches. It adds the servers that are needed by jobs that the node
// could run and that no other node watches, and removes those that no job needs. It adds only servers of the given
// types, and none for which leaveOut returns true. It returns all servers that the node watches, with the saved
// positions.
func (s *Scheduler) Watches(ctx context.Context, n Node, types []string, leaveOut func(Watched) bool) (all map[Watched]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	err = s.db.Begin(ctx, func(tx jobdb.Tx) error {
		all = map[Watched]string{}
		if ok, err := alive(ctx, tx, n); err != nil || !ok {
			return err // without a lease, the node has no watches
		}
		needed, err := watchesNeeded(ctx, tx, n)
		if err != nil {
			return err
		}
		owners, err := watchOwners(ctx, tx)
		if err != nil {
			return err
		}
		for w, owner := range owners {
			if owner != n.Incarnation || slices.Contains(needed, w) {
				continue
			}
			if _, err := tx.Exec(ctx, "DELETE FROM @watch WHERE "+atKey+" AND owner = $5", w.key(n.Incarnation)...); err != nil {
				return err
			}
		}
		for _, w := range needed {
			if owners[w] != "" || !slices.Contains(types, w.Type) || leaveOut(w) {
				continue
			}
			const take = `INSERT INTO @watch AS w (type, server, credential, node, owner) VALUES ($1, $2, $3, $4, $5)
				ON CONFLICT (type, server, credential, node) DO UPDATE SET owner = excluded.owner WHERE w.owner NOT IN ` + aliveNodes
			if _, err := tx.Exec(ctx, take, w.key(n.Incarnation)...); err != nil {
				return err
			}
		}
		return jobdb.Each(ctx, tx, "SELECT type, server, credential, node, position FROM @watch WHERE owner = $1", []any{n.Incarnation}, func(scan func(...any) error) error {
			var w Watched
			var position string
			err := scan(&w.Type, &w.Server, &w.Credential, &w.Node, &position)
			all[w] = position
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("take watches for node %s: %w", n.Name, err)
	}
	return all, nil
}

// watchesNeeded returns the watches needed by jobs that a node could run.
func watchesNeeded(ctx context.Context, tx jobdb.Tx, n Node) (needed []Watched, err error) {
	sql := "SELECT DISTINCT watch_type, watch_server, watch_credential, watch_node FROM @job WHERE watch_type <> '' AND " + placed(1) + " AND " + needsWatch + " ORDER BY 1, 2, 3, 4"
	return needed, jobdb.Each(ctx, tx, sql, []any{n.Name, n.text()}, func(scan func(...any) error) error {
		var w Watched
		err := scan(&w.Type, &w.Server, &w.Credential, &w.Node)
		needed = append(needed, w)
		return err
	})
}

// watchOwners returns the watches of live nodes, with their owners.
func watchOwners(ctx context.Context, tx jobdb.Tx) (map[Watched]string, error) {
	owners := map[Watched]string{}
	return owners, jobdb.Each(ctx, tx, "SELECT type, server, credential, node, owner FROM @watch WHERE owner IN "+aliveNodes, nil, func(scan func(...any) error) error {
		var w Watched
		var owner string
		err := scan(&w.Type, &w.Server, &w.Credential, &w.Node, &owner)
		owners[w] = owner
		return err
	})
}

// WatchFailed records why a watch of a node does not work. If the node gives up, another node may
// take the watch.
func (s *Scheduler) WatchFailed(ctx context.Context, n Node, w Watched, reason error, giveUp bool) error {
	owner := n.Incarnation
	if giveUp {
		owner = ""
	}
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE @watch SET error = $6, owner = $7 WHERE "+atKey+" AND owner = $5", w.key(n.Incarnation, clean(reason.Error()), owner)...)
		return err
	})
	if err != nil {
		return fmt.Errorf("record that the watch of %s failed: %w", w.Server, err)
	}
	return nil
}

// A WatchCheck records that all changes of a server up to a position have woken their jobs.
type WatchCheck struct {
	Watched  Watched
	Position string
	Age      time.Duration // of the check
}

// WatchesChecked saves the checks of a node.
func (s *Scheduler) WatchesChecked(ctx context.Context, n Node, checks []WatchCheck) error {
	if len(checks) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		for _, c := range checks {
			_, err := tx.Exec(ctx, "UPDATE @watch SET position = $6, checked = @now - $7, error = '' WHERE "+atKey+" AND owner = $5", c.Watched.key(n.Incarnation, clean(c.Position), c.Age.Microseconds())...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save positions of watches: %w", err)
	}
	return nil
}

// WatchStates returns the names that jobs wait for on a server, each with the state with which its
// jobs were last woken, or "" if one of these jobs has not been woken yet.
func (s *Scheduler) WatchStates(ctx context.Context, w Watched) (states map[string]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	err = s.db.Begin(ctx, func(tx jobdb.Tx) error {
		states = map[string]string{}
		const sql = "SELECT watch_name, min(watch_state) FROM @job WHERE watch_type = $1 AND watch_server = $2 AND watch_credential = $3 AND watch_node = $4 AND " + needsWatch + " GROUP BY watch_name"
		return jobdb.Each(ctx, tx, sql, w.key(), func(scan func(...any) error) error {
			var name, state string
			err := scan(&name, &state)
			states[name] = state
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read names that jobs wait for on %s: %w", w.Server, err)
	}
	return states, nil
}

// WakeChanged wakes the jobs that wait for names on a server, and saves the states of the names in the same
// transaction. A job that was woken with this state before is left alone, unless the state is "". It returns how many
// jobs were woken.
func (s *Scheduler) WakeChanged(ctx context.Context, w Watched, states map[string]string) (woken int, err error) {
	names := make([]string, 0, len(states))
	for name := range states {
		if isStorable(name) { // otherwise no job has this name
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for some := range slices.Chunk(names, 500) {
		changed := ""
		args := w.key()
		for _, name := range some {
			if changed != "" {
				changed += ", "
			}
			changed += "(" + jobdb.List(len(args)+1, 2) + ")"
			args = append(args, name, storedState(states[name]))
		}
		var n int64
		var origin string
		err := within(ctx, roundLimit, func(ctx context.Context) error {
			return s.db.Begin(ctx, func(tx jobdb.Tx) (err error) {
				n, err = tx.Exec(ctx, "WITH changed (name, value) AS (VALUES "+changed+`)
					UPDATE @job SET wanted = wanted + 1, state = CASE WHEN state = 'idle' THEN 'pending' ELSE state END, watch_state = changed.value,
						since = CASE WHEN state = 'idle' THEN @now ELSE since END, behind = CASE WHEN state = 'idle' THEN @now ELSE behind END
					FROM changed WHERE watch_name = changed.name AND id IN (
						SELECT id FROM @job JOIN changed ON watch_name = changed.name
						WHERE watch_type = $1 AND watch_server = $2 AND watch_credential = $3 AND watch_node = $4
							AND (watch_state <> changed.value OR changed.value = '') AND `+needsWatch+" ORDER BY id @lock)", args...)
				if err != nil || n == 0 {
					return err
				}
				_, err = jobdb.One(ctx, tx, "SELECT "+watchedOrigin+" FROM @job WHERE watch_type = $1 AND watch_server = $2 AND watch_credential = $3 AND watch_node = $4 LIMIT 1", w.key(), &origin)
				return err
			})
		})
		if err != nil {
			return woken, fmt.Errorf("wake jobs that wait for changes on %s: %w", w.Server, err)
		}
		woken += int(n)
		s.observeWoken(origin, "event", int(n))
	}
	s.poke()
	return woken, nil
}

// storedState returns a state in the form in which it is stored, since a server may send any bytes.
func storedState(state string) string {
	if isStorable(state) {
		return state
	}
	return strconv.QuoteToASCII(state) // differs for different states
}

// A WatchAge says how long ago the changes of an origin were last checked: all changes before that have woken their jobs.
type WatchAge struct {
	Origin string // or the URL of local files
	// Age is the age of the oldest check that the origin needs; -1 if one of the checks was never
	// made.
	Age time.Duration
}

// WatchAges returns the age of the watch of each origin that jobs wait for, for at most the given
// number of origins: first origins without a check, then those with the oldest checks.
func (s *Scheduler) WatchAges(ctx context.Context, most int) (ages []WatchAge, err error) {
	const sql = `SELECT j.origin, CASE WHEN min(coalesce(w.checked, 0)) = 0 THEN -1 ELSE @now - min(w.checked) END
		FROM (SELECT DISTINCT watch_type, watch_server, watch_credential, watch_node, ` + watchedOrigin + ` AS origin FROM @job WHERE watch_type <> '' AND ` + needsWatch + `) AS j
		LEFT JOIN @watch AS w ON ` + watchedBy + ` GROUP BY j.origin ORDER BY min(coalesce(w.checked, 0)), j.origin LIMIT $1`
	err = s.db.View(ctx, func(tx jobdb.Tx) error {
		return jobdb.Each(ctx, tx, sql, []any{most}, func(scan func(...any) error) error {
			var a WatchAge
			var since int64
			err := scan(&a.Origin, &since)
			a.Age = age(since)
			ages = append(ages, a)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read ages of watches: %w", err)
	}
	return ages, nil
}

// coveredFor is how long after its last check a watch is assumed to work.
const coveredFor = 10 * time.Minute

// Sweep wakes jobs that have been idle for the given time and that no watch covers, because they wait for something
// that cannot be watched, or because the watch does not work. Jobs that have been idle the longest come first. It
// wakes at most the given number of jobs, and returns how many it has woken.
func (s *Scheduler) Sweep(ctx context.Context, idle time.Duration, most int) (woken int, err error) {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	var origins map[string]int
	err = s.db.Begin(ctx, func(tx jobdb.Tx) error {
		var ids []any
		origins = map[string]int{}
		const sql = `SELECT id, ` + watchedOrigin + ` FROM @job AS j WHERE state = 'idle' AND stopped <= @now - $1 AND NOT EXISTS (SELECT 1 FROM @watch AS w
				WHERE ` + watchedBy + ` AND w.error = '' AND w.checked > @now - $2) ORDER BY stopped LIMIT $3 @skip`
		err := jobdb.Each(ctx, tx, sql, []any{idle.Microseconds(), coveredFor.Microseconds(), most}, func(scan func(...any) error) error {
			var id, origin string
			err := scan(&id, &origin)
			ids = append(ids, id)
			origins[origin]++
			return err
		})
		if woken = len(ids); err != nil || woken == 0 {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE @job SET wanted = wanted + 1, state = 'pending', since = @now, behind = @now, swept = @now WHERE state = 'idle' AND id IN ("+jobdb.List(1, len(ids))+")", ids...)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("wake jobs that are not watched: %w", err)
	}
	for origin, n := range origins {
		s.observeWoken(origin, "sweep", n)
	}
	s.poke()
	return woken, nil
}

// A WatchStatus describes how a job is woken.
type WatchStatus struct {
	Watched
	Name string `json:"name"`
	// By is the name of the node that watches; empty if no node does.
	By string `json:"by,omitempty"`
	// Checked is the time up to which changes have woken the job.
	Checked time.Time `json:"checked,omitzero"`
	Error   string    `json:"error,omitempty"` // why the watch does not work
	// Swept is when the job was last woken only because it was not watched.
	Swept time.Time `json:"swept,omitzero"`
}

// Watch describes how a job is woken. If Type is empty, the job is woken at intervals.
func (s *Scheduler) Watch(ctx context.Context, id string) (status WatchStatus, err error) {
	err = s.db.View(ctx, func(tx jobdb.Tx) error {
		found, err := watchStatus(ctx, tx, id)
		if err == nil {
			status = *found
		}
		return err
	})
	if err != nil {
		return WatchStatus{}, fmt.Errorf("read watch of job %s: %w", id, err)
	}
	return status, nil
}

func watchStatus(ctx context.Context, tx jobdb.Tx, id string) (*WatchStatus, error) {
	var status WatchStatus
	var checked, swept int64
	const sql = `SELECT watch_type, watch_server, watch_credential, watch_node, watch_name, swept, coalesce(w.checked, 0), coalesce(w.error, ''), coalesce(n.name, '')
			FROM @job AS j LEFT JOIN @watch AS w ON ` + watchedBy + ` LEFT JOIN @node AS n ON n.incarnation = w.owner AND n.expires > @now WHERE j.id = $1`
	found, err := jobdb.One(ctx, tx, sql, []any{id}, &status.Type, &status.Server, &status.Credential, &status.Node, &status.Name, &swept, &checked, &status.Error, &status.By)
	if err == nil && !found {
		err = ErrNoJob
	}
	status.Checked, status.Swept = fromMicros(checked), fromMicros(swept)
	return &status, err
}
