package outbox_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage/memory"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish("1234", "5678")
	w.exec(`INSERT INTO feedctl.outbox_quarantine (feed, id, reason) VALUES ('bad', 1, 'why')`)
	w.exec(`INSERT INTO feedctl.outbox_lease VALUES ('led', 'somebody', clock_timestamp() + interval '1 hour'), ('was led', 'x', clock_timestamp() - interval '1 s')`)
	w.drain(outbox.Config{Store: memory.New()})
	w.publish("abc")
	s, err := w.db.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := range s.Feeds {
		f := &s.Feeds[n]
		if f.Waiting > 0 != (f.LagSeconds > 0) {
			t.Errorf("lag of %+v", f)
		}
		f.LagSeconds = 0
	}
	want := []outbox.FeedStatus{
		{Feed: "bad", Quarantined: 1},
		{Feed: "led", Runner: "somebody"},
		{Feed: "things", Waiting: 1, Bytes: 3, Destination: "store", Batch: 1},
	}
	for n := range want {
		if n < len(s.Feeds) {
			want[n].Until = s.Feeds[n].Until
		}
	}
	if diff := cmp.Diff(outbox.Status{Feeds: want}, s); diff != "" {
		t.Error(diff)
	}
	if s, err = w.db.Status(t.Context(), "bad"); err != nil || len(s.Feeds) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	feeds, err := w.db.Feeds(t.Context())
	if diff := cmp.Diff([]string{"things"}, feeds); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// Status returns the oldest transaction, open or prepared, whose rows are not yet visible.
func TestStatusOfTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.begin()
	w.in(other, "CREATE TABLE elsewhere ()")
	long := w.begin()
	w.in(long, "SELECT feedctl.publish('things', 'k')")
	w.exec("SELECT pg_sleep(1.01)")
	pid := get[int](w, `SELECT pid FROM pg_locks WHERE relation = 'feedctl.outbox'::regclass AND granted`)
	s, err := w.db.Status(t.Context())
	if err != nil || s.Transaction == nil || s.Transaction.PID != pid || s.Transaction.State != "idle in transaction" {
		t.Errorf("%+v, %v; want %d", s.Transaction, err, pid)
	}
	w.in(long, "PREPARE TRANSACTION 'waiting'")
	w.exec("SELECT pg_sleep(1.01)")
	s, err = w.db.Status(t.Context())
	if err != nil || s.Transaction == nil || s.Transaction.PID != 0 || s.Transaction.Prepared != "waiting" {
		t.Errorf("%+v, %v", s.Transaction, err)
	}
	w.exec("ROLLBACK PREPARED 'waiting'")
}

// After a database has been restored from a backup, Adopt finds the rows that were published
// after the backup was made.
func TestAdopt(t *testing.T) {
	t.Parallel()
	w, store := newWorld(t), memory.New()
	c := outbox.Config{Feed: testFeed, Store: store}
	w.publish("1")
	w.drain(c)
	w.publish("2", "3")
	w.exec(`CREATE TABLE rows AS SELECT * FROM feedctl.outbox; CREATE TABLE state AS SELECT * FROM feedctl.outbox_feed`)
	w.drain(c)
	w.publish("4")
	w.drain(c)
	// The database no longer has the transactions made after the backup.
	w.exec(`DELETE FROM feedctl.outbox_feed; INSERT INTO feedctl.outbox_feed SELECT * FROM state;
		INSERT INTO feedctl.outbox OVERRIDING SYSTEM VALUE SELECT * FROM rows`)
	w.publish("5")
	if _, err := drain(t.Context(), w.db, c); !errors.Is(err, outbox.ErrForeign) {
		t.Fatal(err)
	}
	n, err := w.db.Adopt(t.Context(), c)
	if err != nil || n != 2 {
		t.Fatalf("%d rows, %v", n, err)
	}
	w.drain(c)
	if diff := cmp.Diff([]string{"1", "2", "3", "4", "5"}, bodies(t, store)); diff != "" {
		t.Error(diff)
	}
	// Adopt also works with pages in another store.
	local := w.localStore()
	w.publish("6")
	if _, err := drain(t.Context(), w.db, outbox.Config{Local: local}); !errors.Is(err, outbox.ErrDestination) {
		t.Fatal(err)
	}
	if n, err := w.db.Adopt(t.Context(), outbox.Config{Feed: testFeed, Local: local}); err != nil || n != 0 {
		t.Fatalf("%d rows, %v", n, err)
	}
	w.drain(outbox.Config{Local: local})
	if diff := cmp.Diff([]string{"6"}, bodies(t, local)); diff != "" {
		t.Error(diff)
	}
}
