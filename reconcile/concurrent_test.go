package reconcile_test

import (
	"fmt"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/reconcile"
	sinksqlite "github.com/feedctl/feedctl/sink/sqlite"
)

// TestWhileConsuming: what a consumer writes during a comparison is never reported as a difference.
func TestWhileConsuming(t *testing.T) {
	const rounds = 20
	w := newWorld(t)
	w.publish(3000)
	w.consume()
	d, _ := w.digest()
	s, err := sinksqlite.Open(t.Context(), w.path, "zones")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	consumed := make(chan error, 1)
	go func() {
		for i := range rounds {
			w.send(w.put(key(i), fmt.Sprintf(`{"round":%d}`, i)), w.put(fmt.Sprintf("new/%d", i), "{}"), w.remove(key(1000+i)))
			job := consumer.Job{Client: w.client, URL: w.url, Sink: s}
			if _, err := job.Run(t.Context()); err != nil {
				consumed <- err
				return
			}
		}
		close(consumed)
	}()
	between := map[int64]bool{}
	for ended := false; !ended; {
		select {
		case err := <-consumed:
			if err != nil {
				t.Fatal(err)
			}
			ended = true // and once more
		default:
		}
		report, err := reconcile.Run(t.Context(), w.config(d))
		if err != nil || report.Differences() > 0 {
			t.Fatalf("%v, %+v", err, report)
		}
		between[report.Between] = true
	}
	if !between[3*rounds] {
		t.Errorf("numbers of keys between the positions: %v, want %d among them", between, 3*rounds)
	}
}
