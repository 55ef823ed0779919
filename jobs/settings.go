package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/suggest"
	"github.com/feedctl/feedctl/internal/units"
)

// Settings holds the settings of the scheduler, which apply to all of its nodes. [Scheduler.Set]
// changes them.
type Settings struct {
	// MaxJobs is how many jobs a node runs at the same time, if its [WorkerConfig] does not set it.
	MaxJobs int
	// Interval is the time between two rotations. In a rotation, a node ends up to MaxChurn runs if
	// other jobs wait. No run ends before MinRunTime.
	Interval   time.Duration
	MaxChurn   int
	MinRunTime time.Duration
	// StartupJitter is the period over which a node spreads 500 or more runs that it starts together.
	// Fewer runs are spread over a part of the period, so that the time between two starts is the
	// same.
	StartupJitter time.Duration
	// PerOrigin is the approximate number of jobs with the same server that may run at the same time;
	// Zero means no limit.
	PerOrigin int
	// Backoff says how long jobs wait after errors, unless their documents set a backoff.
	Backoff Backoff
	// HealthThreshold is how long a run must last before earlier errors no longer count.
	HealthThreshold time.Duration
	// RunLimit is how long a run of a job that follows may take to catch up. After that, the run
	// ends, and the job is due again at once.
	RunLimit time.Duration
	// StuckAfter is how long a run may go without progress; see [Session.Report].
	StuckAfter time.Duration
	// StatsInterval is the time between two writes of the statistics of runs.
	StatsInterval time.Duration
	// HalfLife is the time after which the usage of a namespace has halved.
	HalfLife time.Duration
	// Lease is how long a node may be silent before its jobs run elsewhere.
	Lease time.Duration
	// History is how many events of a job are kept.
	History int
	// Retention is how long lost nodes, and transient jobs that have ended, are kept.
	Retention time.Duration
}

// Defaults returns the settings of a new scheduler.
func Defaults() Settings {
	return Settings{
		MaxJobs:         500,
		Interval:        15 * time.Second,
		MaxChurn:        100,
		MinRunTime:      time.Minute,
		StartupJitter:   5 * time.Second,
		PerOrigin:       100,
		Backoff:         Backoff{30 * time.Second, time.Hour},
		HealthThreshold: 2 * time.Minute,
		RunLimit:        10 * time.Minute,
		StuckAfter:      5 * time.Minute,
		StatsInterval:   10 * time.Second,
		HalfLife:        5 * time.Minute,
		Lease:           12 * time.Second,
		History:         20,
		Retention:       24 * time.Hour,
	}
}

// MaxSlots is the largest number of jobs that a node can run at the same time.
const MaxSlots = 10_000

// A Setting is one of the [Settings], with its values as strings.
type Setting struct {
	Name    string `json:"name"` // for [Scheduler.Set]: "max-churn"
	Value   string `json:"value"`
	Default string `json:"default"`
	Bounds  string `json:"bounds"` // "1 to 10000", "1s to 1h"
	Usage   string `json:"usage"`
}

// List returns the settings in the order in which they are shown to users.
func (s Settings) List() []Setting {
	defaults := Defaults()
	list := s.fields()
	all := make([]Setting, len(list))
	for n, f := range defaults.fields() {
		all[n] = Setting{f.name, list[n].text(), f.text(), f.bounds(), f.usage}
	}
	return all
}

// A field is one of the numbers of [Settings].
type field struct {
	name, usage string
	number
}

// A number is a count or a time, with its bounds.
type number interface {
	text() string
	bounds() string
	set(text string) error
}

func (s *Settings) fields() []field {
	const (
		second = time.Second
		day    = 24 * time.Hour
		week   = 7 * day
	)
	return []field{
		{"max-jobs", "jobs that a node without --max-jobs runs at the same time", count{&s.MaxJobs, 1, MaxSlots}},
		{"interval", "time between two rotations of a node", span{&s.Interval, second, time.Hour}},
		{"max-churn", "runs that a rotation may end to make room for waiting jobs", count{&s.MaxChurn, 1, MaxSlots}},
		{"min-run-time", "time that a run lasts before it may be rotated", span{&s.MinRunTime, 0, day}},
		{"startup-jitter", "period over which the starts of 500 or more runs are spread", span{&s.StartupJitter, 0, time.Minute}},
		{"max-per-origin", "jobs that use the same server at the same time; 0: no limit", count{&s.PerOrigin, 0, 1_000_000}},
		{"backoff-min", "time that a job waits after its first error", span{&s.Backoff.Min, second, day}},
		{"backoff-max", "longest time that a job waits after errors", span{&s.Backoff.Max, second, week}},
		{"health-threshold", "how long a run must last before earlier errors no longer count", span{&s.HealthThreshold, second, day}},
		{"run-limit", "time after which a run that has not caught up ends, and its job is due again", span{&s.RunLimit, time.Minute, time.Hour}},
		{"stuck-after", "time without progress after which a run is ended", span{&s.StuckAfter, time.Minute, day}},
		{"stats-interval", "time between two writes of the statistics of runs", span{&s.StatsInterval, second, time.Minute}},
		{"usage-half-life", "time after which the usage of a namespace counts only half", span{&s.HalfLife, second, week}},
		{"lease", "time after which the jobs of a silent node run elsewhere", span{&s.Lease, 3 * heartbeatEvery, time.Hour}},
		{"history", "events that are kept of each job", count{&s.History, 1, 1000}},
		{"retention", "how long ended one-time jobs and lost nodes are kept", span{&s.Retention, time.Minute, 52 * week}},
	}
}

// A count is a number without a unit.
type count struct {
	at          *int
	least, most int
}

func (c count) text() string   { return strconv.Itoa(*c.at) }
func (c count) bounds() string { return fmt.Sprintf("%d to %d", c.least, c.most) }

func (c count) set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return errors.New("want a number")
	}
	*c.at = n
	return outside(n < c.least || n > c.most, c)
}

// A span is a duration.
type span struct {
	at          *time.Duration
	least, most time.Duration
}

func short(d time.Duration) string { return (*units.Duration)(&d).String() }

func (d span) text() string   { return short(*d.at) }
func (d span) bounds() string { return short(d.least) + " to " + short(d.most) }

func (d span) set(text string) error {
	if err := (*units.Duration)(d.at).Set(text); err != nil {
		return errors.New("want a number and a unit, such as 90s, 4h30m or 7d")
	}
	return outside(*d.at < d.least || *d.at > d.most, d)
}

func outside(is bool, n number) error {
	if !is {
		return nil
	}
	return errors.New("want " + n.bounds())
}

// change applies the changes that have no problems, and returns all problems.
func (s *Settings) change(changes map[string]string) (problems InvalidError) {
	all, before := map[string]field{}, *s
	for _, f := range s.fields() {
		all[f.name] = f
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		f, ok := all[name]
		if !ok {
			problems = append(problems, Problem{Field: name, Message: "unknown setting" + suggest.DidYouMean(name, slices.Sorted(maps.Keys(all)), "")})
			continue
		}
		valid := *s
		if err := f.set(changes[name]); err != nil {
			*s = valid
			problems = append(problems, Problem{Field: name, Message: fmt.Sprintf("invalid value %q: %v", changes[name], err)})
		}
	}
	if s.Backoff.Min > s.Backoff.Max {
		problems = append(problems, Problem{Field: "backoff-min", Message: fmt.Sprintf("%s is above backoff-max, %s", short(s.Backoff.Min), short(s.Backoff.Max))})
		s.Backoff = before.Backoff
	}
	return problems
}

// settings returns the settings that this process last read.
func (s *Scheduler) settings() *Settings { return s.cached.Load() }

// Settings returns the settings of the scheduler.
func (s *Scheduler) Settings(ctx context.Context) (all Settings, err error) {
	err = s.db.View(ctx, func(tx jobdb.Tx) error {
		all, _, err = s.readSettings(ctx, tx)
		return err
	})
	if err != nil {
		return Settings{}, fmt.Errorf("read settings: %w", err)
	}
	return all, nil
}

// readSettings reads the settings from the database. Stored settings with problems, which may come
// from a newer program, are ignored and returned.
func (s *Scheduler) readSettings(ctx context.Context, tx jobdb.Tx) (all Settings, ignored InvalidError, err error) {
	stored, err := storedSettings(ctx, tx)
	if err != nil {
		return Settings{}, nil, err
	}
	all = s.defaults
	ignored = all.change(stored)
	s.cached.Store(&all)
	return all, ignored, nil
}

// readSettings reads the settings. The problems of ignored settings are logged whenever these problems change.
func (w *worker) readSettings(ctx context.Context) error {
	var problems InvalidError
	err := w.store.db.View(ctx, func(tx jobdb.Tx) (err error) {
		_, problems, err = w.store.readSettings(ctx, tx)
		return err
	})
	if err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	if text := problems.Error(); text != w.ignored {
		if w.ignored = text; text != "" {
			w.config.Logger.Warn("stored settings are ignored, using the defaults", "node", w.config.Name, "problems", text)
		}
	}
	return nil
}

func storedSettings(ctx context.Context, tx jobdb.Tx) (map[string]string, error) {
	stored := map[string]string{}
	err := jobdb.Each(ctx, tx, "SELECT name, value FROM @setting", nil, func(scan func(...any) error) error {
		var name, value string
		err := scan(&name, &value)
		stored[name] = value
		return err
	})
	return stored, err
}

// Set changes settings by their names, as in [Setting], and returns all of them. An empty value
// resets a setting to its default. Nodes use the new settings within seconds. If a name or a
// value is invalid, nothing is changed, and the error is an [InvalidError] with all problems.
func (s *Scheduler) Set(ctx context.Context, changes map[string]string) (Settings, error) {
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		if err := exclusively(ctx, tx); err != nil {
			return err
		}
		stored, err := storedSettings(ctx, tx)
		if err != nil {
			return err
		}
		valid := s.defaults
		for _, ignored := range valid.change(stored) { // invalid stored settings are ignored, as when they are read
			delete(stored, ignored.Field)
		}
		current := s.defaults
		if problems := current.change(merged(stored, changes)); len(problems) > 0 {
			return problems
		}
		for _, name := range slices.Sorted(maps.Keys(changes)) {
			sql, args := "INSERT INTO @setting (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value", []any{name, changes[name]}
			if changes[name] == "" {
				sql, args = "DELETE FROM @setting WHERE name = $1", args[:1]
			}
			if _, err := tx.Exec(ctx, sql, args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Settings{}, fmt.Errorf("change settings: %w", err)
	}
	all, err := s.Settings(ctx)
	s.poke()
	return all, err
}

// merged returns the stored settings with the changes applied, without the settings that the changes
// reset.
func merged(stored, changes map[string]string) map[string]string {
	all := maps.Clone(stored)
	maps.Copy(all, changes)
	for _, f := range new(Settings).fields() {
		if all[f.name] == "" {
			delete(all, f.name)
		}
	}
	return all
}
