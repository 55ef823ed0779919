package kinto

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/kintotest"
)

// dump saves the database of a server with pg_dump, and returns a function that replaces the database
// with what was saved, while the server is stopped.
func dump(t *testing.T, server *kintotest.Server) (restore func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dump")
	run := func(program string, args ...string) {
		t.Helper()
		if out, err := exec.Command(program, append(args, "--dbname", server.Database())...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", program, err, out)
		}
	}
	run("pg_dump", "--format=custom", "--file", file)
	return func() {
		t.Helper()
		server.Kill()
		run("pg_restore", "--clean", "--if-exists", "--single-transaction", file)
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRestoredFromDump: the database of a server is restored to an older state, between two runs or while
// the bridge follows, and may be written to again. What was written after that state leaves the feed, and
// what was changed or deleted returns.
func TestRestoredFromDump(t *testing.T) {
	t.Parallel()
	server := kintotest.StartOwn(t, kintotest.PostgreSQL)
	for _, follow := range []bool{false, true} {
		for name, write := range map[string]func(r *rig){ // after the restore, before the bridge makes another request
			"nothing":  func(*rig) {},
			"a record": func(r *rig) { r.put("new", `"n":1`) }, // the stamp is not lower then
		} {
			t.Run(fmt.Sprintf("%s follow %t", name, follow), func(t *testing.T) {
				r := newRigOf(t, server.NewCollection(t))
				r.configure = func(c *Config) { c.Window = 100 * time.Millisecond } // the stamp may be lower for this long
				r.fill(0, 30)
				r.run()
				restore := dump(t, server)
				r.put("r3", `"n":"newer"`)
				r.put("r99", `"n":"newest"`) // the number of records
				r.delete("r4")               // remains the same
				f := r.following()
				f.caughtUp(r.listed())
				if !follow {
					f.stop()
				}
				f.between(func() {
					restore()
					write(r)
				})
				if follow {
					f.caughtUp(r.listed())
					f.stop()
				}
				r.run()
				r.check()
				if report := r.run(); !report.NoChanges {
					t.Errorf("report is %+v", report)
				}
			})
		}
	}
}
