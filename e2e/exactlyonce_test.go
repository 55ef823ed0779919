package e2e

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/internal/s3test"
)

var (
	entities   = flag.Int("entities", 6_000, "entities that TestExactlyOnce publishes")
	kills      = flag.Int("kills", 12, "processes that TestExactlyOnce kills, at least 3: one of each kind")
	s3Entities = flag.Int("s3-entities", 2_000, "entities that TestExactlyOnceS3 publishes")
	s3Kills    = flag.Int("s3-kills", 6, "processes that TestExactlyOnceS3 kills, at least 3: one of each kind")
	seed       = flag.Uint64("seed", 0, "seed of the tests that kill processes; 0 for a random one")
)

// TestExactlyOnce kills producers, the server and consumers with SIGKILL at random points
// and restarts them until everything is published. Then each entity must be in the feed and
// in each sink exactly once, in order.
func TestExactlyOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, "file:"+t.TempDir(), 1, *entities)
	for k := range *kills {
		r.round(k, *kills)
	}
	r.finish()
	r.checkKilled(*kills)
	r.check()
}

// badWeather is the fraction of requests to an S3 server that meet a fault.
const badWeather = 0.25

// TestExactlyOnceS3 does the same as TestExactlyOnce on S3, with two servers that share only the bucket, and consumers that
// read the bucket directly. In every second round, the network between the processes and the bucket is faulty.
func TestExactlyOnceS3(t *testing.T) {
	t.Parallel()
	network := startNetwork(t, s3test.Start(t), newSeed(t))
	r := newRig(t, network.url("exactly-once"), 2, *s3Entities)
	for k := range *s3Kills {
		network.weather.Set(badWeather*float64(k%2), 0)
		r.round(k, *s3Kills)
	}
	network.weather.Set(0, 0)
	network.weather.Settle(t.Context())
	r.finish()
	t.Log(network.weather)
	r.checkKilled(*s3Kills)
	r.check()
	if missing := network.weather.Missing(); slices.Contains(missing, "503") {
		t.Errorf("no request met the faults %q", missing)
	}
}

// checkKilled checks the number of killed processes, and that all kinds are among them.
func (r *rig) checkKilled(kills int) {
	sum := 0
	for _, name := range []string{"server", "consumer", "producer"} {
		if r.killed[name] == 0 {
			r.t.Errorf("no %s was killed", name)
		}
		sum += r.killed[name]
	}
	if sum != kills {
		r.t.Errorf("%d processes were killed, want %d", sum, kills)
	}
}

// check compares the published entities with the feed and the sinks.
func (r *rig) check() {
	inFeed := readFeed(r.t, r.url(0))
	if err := checkIDs("feed", inFeed, producers, r.each); err != nil {
		r.t.Error(err)
	}
	for _, p := range r.consumers {
		name, isLines := strings.CutPrefix(p.args[slices.Index(p.args, "--into")+1], "jsonl:")
		if !isLines {
			continue
		}
		inFile := readLines(r.t, name)
		if err := checkIDs(name, inFile, producers, r.each); err != nil {
			r.t.Error(err)
		}
		if !slices.Equal(inFeed, inFile) {
			r.t.Errorf("%s has a different order than the feed", name)
		}
	}
	inTable, err := r.readTable()
	if err != nil {
		r.t.Error(err)
	}
	slices.Sort(inFeed)
	if !slices.Equal(inFeed, inTable) {
		r.t.Errorf("the %d rows in SQLite differ from the %d entities of the feed", len(inTable), len(inFeed))
	}
	for n := range r.servers {
		feedctl(r.t, "verify", r.url(n))
	}
	feedctl(r.t, "verify", "events", "--store", r.store)
}

// readTable returns the Content-IDs in the table, sorted.
func (r *rig) readTable() (ids []string, err error) {
	conn, err := sqlite.OpenConn(r.path("out.db"), sqlite.OpenReadOnly)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	err = sqlitex.Execute(conn, "SELECT content_id FROM entities ORDER BY content_id", &sqlitex.ExecOptions{
		ResultFunc: func(row *sqlite.Stmt) error { ids = append(ids, row.ColumnText(0)); return nil },
	})
	return ids, err
}
