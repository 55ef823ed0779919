package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// Held returns the origins to which only a probe may send requests, because they are down or ask
// their clients to wait. The value for each is the time until the next probe, or until the end of the
// wait.
func (s *Scheduler) Held(ctx context.Context) (waits map[string]time.Duration, err error) {
	waits = map[string]time.Duration{}
	err = s.db.View(ctx, func(tx jobdb.Tx) error {
		return jobdb.Each(ctx, tx, "SELECT origin, blocked - @now FROM @origin WHERE open OR blocked > @now", nil, func(scan func(...any) error) error {
			var origin string
			var wait int64
			err := scan(&origin, &wait)
			waits[origin] = max(0, time.Duration(wait)*time.Microsecond)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read which servers are not used: %w", err)
	}
	return waits, nil
}
