package jobdb_test

import (
	"testing"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
)

func TestVanishedServer(t *testing.T) {
	t.Parallel()
	db, err := jobdb.Open(t.Context(), pgtest.Start(t).URL("vanished"), jobdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pgtest.NoticesVanishedServer(t, db.Dial)
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
