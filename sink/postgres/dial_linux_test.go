package postgres_test

import (
	"testing"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/sink/postgres"
)

func TestVanishedServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.Start(t), "vanished")
	k := w.open(t, postgres.Options{Table: "t"})
	pgtest.NoticesVanishedServer(t, k.Dial)
}
