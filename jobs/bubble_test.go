package jobs_test

import (
	"database/sql/driver"
	"sync"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// goClock makes databases use the time of the calling goroutine as their clock: in a bubble of
// synctest, that time is fake.
var goClock = sync.OnceValue(func() string {
	sqlite.MustRegisterScalarFunction("go_now", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return time.Now().UnixMicro(), nil
	})
	return "go_now()"
})

// inBubble opens a scheduler in memory that uses the clock of the bubble.
func inBubble(t *testing.T, kinds jobs.Kinds) *jobs.Scheduler {
	t.Helper()
	return inBubbleWith(t, kinds, jobs.Defaults())
}

func inBubbleWith(t *testing.T, kinds jobs.Kinds, settings jobs.Settings) *jobs.Scheduler {
	t.Helper()
	db, err := jobdb.Open(t.Context(), "sqlite::memory:", jobdb.Options{Clock: goClock()})
	if err != nil {
		t.Fatal(err)
	}
	return jobs.NewScheduler(db, kinds, settings)
}
