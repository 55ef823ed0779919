package jobs_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/feedctl/feedctl/jobs"
)

// originKind is a kind of job whose source and target are its origins.
type originKind struct{ fakeKind }

func (originKind) Identify(d *jobs.Document) jobs.Identity {
	return jobs.Identity{Work: d.ID(), SourceOrigin: d.Source, TargetOrigin: d.Target}
}

// TestOriginDown: the server of 1,000 jobs is down for half an hour; a few other jobs use another
// server.
func TestOriginDown(t *testing.T) {
	t.Parallel()
	db := databases(t)["sqlite"]
	store := jobs.NewScheduler(db, jobs.Kinds{"fake": originKind{}}, jobs.Defaults())
	var documents []jobs.Document
	many := size(1000, 150)
	for n := range many + 10 {
		server := "https://down.test"
		if n >= many {
			server = "https://up.test"
		}
		documents = append(documents, jobs.Document{Namespace: "n", Name: fmt.Sprint(n), Kind: "fake", Source: server, Follow: true})
	}
	if _, err := store.Apply(t.Context(), documents, jobs.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	const slots = 500
	node, err := store.Join(t.Context(), jobs.Node{Name: "n", Slots: slots})
	if err != nil {
		t.Fatal(err)
	}
	down := time.Duration(size(30, 10)) * time.Minute
	back := epoch.Add(down)
	requests, caughtUp, others := 0, 0, 0
	at := epoch
	for ; caughtUp < many && at.Before(back.Add(2*time.Minute)); at = at.Add(time.Second) {
		exec(t, db, "UPDATE @clock SET at = $1", at.UnixMicro())
		if err := store.Heartbeat(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		runs, err := store.Admit(t.Context(), node, slots)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			o := jobs.Outcome{End: jobs.CaughtUp, Seen: r.Job.Wanted}
			switch server := r.Job.Document.Source; {
			case server != "https://down.test":
				others++
			case at.Before(back):
				requests++
				refused := &jobs.OriginError{Origin: server, Err: errors.New("connection refused")}
				o = jobs.Outcome{End: jobs.Crashed, Reason: refused.Error(), Origin: refused}
			default:
				caughtUp++
				if err := store.OriginUp(t.Context(), server); err != nil {
					t.Fatal(err)
				}
			}
			if err := store.Finish(t.Context(), r, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	if others != 10 {
		t.Errorf("%d of 10 jobs of another server ran", others)
	}
	if most := jobs.Defaults().PerOrigin + int(down/time.Minute) + 5; requests > most {
		t.Errorf("%d runs used the server while it was down, want at most %d", requests, most)
	}
	if took := at.Sub(back); caughtUp != many || took > 90*time.Second {
		t.Errorf("%d of %d jobs ran within %v", caughtUp, many, took)
	}
	t.Logf("%d runs while the server was down; all had run %v after", requests, at.Sub(back))
}
