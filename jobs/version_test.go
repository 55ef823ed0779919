package jobs_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// TestVersion: the tables of a newer program are refused, and stay as they are.
func TestVersion(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "jobs.db"),
		"postgres": pgtest.Start(t).URL("version"),
	} {
		t.Run(name, func(t *testing.T) {
			db, err := jobdb.Open(t.Context(), url, jobdb.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			exec(t, db, "UPDATE @version SET version = 1000")
			s, err := jobs.Open(t.Context(), url, fakeKinds, jobs.Defaults())
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, jobs.ErrVersion) || !strings.Contains(err.Error(), "version 1000") {
				t.Errorf("newer tables: error %v, want ErrVersion with the version", err)
			}
			var version int
			err = db.View(t.Context(), func(tx jobdb.Tx) error {
				_, err := jobdb.One(t.Context(), tx, "SELECT version FROM @version", nil, &version)
				return err
			})
			if err != nil || version != 1000 {
				t.Errorf("the version is %d afterwards: %v", version, err)
			}
		})
	}
}
