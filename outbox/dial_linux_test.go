package outbox_test

import (
	"testing"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/outbox"
)

func TestVanishedServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db, err := outbox.Create(t.Context(), w.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	pgtest.NoticesVanishedServer(t, db.Dial)
}
