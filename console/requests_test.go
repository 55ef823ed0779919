package console

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestRequests counts requests over more than an hour.
func TestRequests(t *testing.T) {
	t.Parallel()
	var q Requests
	now := start
	for minute := range 90 {
		now = start.Add(time.Duration(minute) * time.Minute)
		q.count("get", false, now)
		q.count("stat", minute == 80 || minute == 10, now)
	}
	v := q.view(now)
	if len(v.Kinds) != 2 || v.Kinds[0] != (requestKind{"get", requestCount{90, 0}}) || v.Kinds[1] != (requestKind{"stat", requestCount{90, 2}}) {
		t.Errorf("since the start: %+v", v.Kinds)
	}
	if v.Hour != (requestCount{120, 1}) || v.Path != "M0 20V12h60V20z" {
		t.Errorf("in the last hour: %+v, %s", v.Hour, v.Path)
	}
	if v := q.view(now.Add(50 * time.Minute)); v.Hour.All != 20 {
		t.Errorf("50 minutes later: %+v", v.Hour)
	}
}

// TestBackground: the number of tasks is limited, and close ends the tasks and waits for them.
func TestBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(*testing.T) {
		b := newBackground(2)
		ended := 0
		task := func(ctx context.Context) { <-ctx.Done(); ended++; time.Sleep(time.Second) }
		if first := b.run(task); !first {
			t.Error("the first task is refused")
		}
		b.run(func(context.Context) {})
		synctest.Wait()
		for n, want := range []bool{true, false} {
			if b.run(func(ctx context.Context) { <-ctx.Done() }) != want {
				t.Errorf("task %d is accepted: %t", n, !want)
			}
		}
		b.close()
		if ended != 1 || b.run(task) {
			t.Error("close did not wait for a task, or another was accepted afterwards")
		}
	})
}
