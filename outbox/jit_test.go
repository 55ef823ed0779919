package outbox_test

import (
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestNoJIT: the server never uses JIT compilation for the outbox, since compiling a statement would
// take longer than executing it.
func TestNoJIT(t *testing.T) {
	t.Parallel()
	server := pgtest.StartOwn(t, "jit=on", "log_min_messages=debug1")
	w := &world{TB: t, url: server.URL("compiled"), feed: testFeed}
	var err error
	if w.db, err = outbox.Create(t.Context(), w.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.db.Close)
	w.pool = w.connect(nil)
	compiles := func() bool { return strings.Contains(server.Log(), "JIT provider") }
	w.publish("a", "b")
	w.drain(outbox.Config{Local: w.localStore()})
	if compiles() {
		t.Error("the server compiles statements when pages are in the database")
	}
	w = w.with("others")
	w.publish("c", "d")
	w.drain(outbox.Config{Store: memory.New()})
	if compiles() {
		t.Error("the server compiles statements when pages are elsewhere")
	}
	if _, err := w.db.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	if compiles() {
		t.Error("the server compiles statements for the status")
	}
	w.exec("SET jit_above_cost = 0; SELECT count(*) FROM feedctl.outbox")
	if !compiles() {
		t.Error("the server does not log JIT compilation")
	}
}
