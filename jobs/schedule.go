package jobs

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
)

// nextRun returns the first time after t that a schedule matches.
func nextRun(schedule string, t time.Time) (time.Time, error) {
	parsed, err := cron.ParseStandard("CRON_TZ=UTC " + schedule)
	if err != nil {
		return time.Time{}, fmt.Errorf("invalid schedule %q: want five fields as in crontab(5): %w", schedule, err)
	}
	next := parsed.Next(t)
	if next.IsZero() {
		return time.Time{}, fmt.Errorf("invalid schedule %q: it matches no time", schedule)
	}
	return next, nil
}
