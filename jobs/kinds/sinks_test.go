package kinds_test

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/sink/dir"
)

// TestSinks runs a job that follows on two schedulers at the same time, with each sink except jsonl,
// which TestConsume covers. When the first scheduler stops, the other takes over.
func TestSinks(t *testing.T) {
	for _, test := range []struct {
		name   string
		target func(s *scene) string
		// read returns the number in the copy for each key, or an error if the copy does not exist.
		read func(s *scene, target string) (map[string]int, error)
	}{
		{"dir", func(s *scene) string { return "dir:" + s.path("copy") }, readDirectory},
		{"sqlite", func(s *scene) string { return "sqlite:" + s.path("copy.db") + "?table=copy" }, readSQLite},
		{"postgres", func(s *scene) string { return pgtest.Start(s).URL("sinks") + "&table=copy" }, readPostgres},
		{"couchdb", func(s *scene) string { return "couchdb:" + couchtest.NewDB(s) }, readCouchDB},
		{"kinto", func(s *scene) string { return "kinto:" + kintotest.NewFake(s).NewCollection(s) }, readKinto},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			target := test.target(s)
			document := func() jobs.Document {
				return jobs.Document{Name: "copy", Kind: "consume", Source: s.url() + "#zones", Target: target, Follow: true}
			}
			var got map[string]int
			var err error
			copied := func(*jobs.Job) bool {
				got, err = test.read(s, target)
				return err == nil && maps.Equal(got, s.numbers())
			}
			defer func() {
				if t.Failed() {
					t.Logf("the copy has %v (%v), want %v", got, err, s.numbers())
				}
			}()
			s.publish("zones", 30)
			a, stopA := s.schedule(document())
			s.await(a, "copy", copied)
			b, _ := s.schedule(document())
			s.publish("zones", 30)
			s.await(a, "copy", copied)
			stopA()
			s.publish("zones", 30)
			s.await(b, "copy", copied)
		})
	}
}

// numbers returns the last number that was published for each key.
func (s *scene) numbers() map[string]int {
	last := map[string]int{}
	for n := range s.next {
		last[key(n+1)] = n + 1
	}
	return last
}

type body struct{ N int }

func readDirectory(s *scene, target string) (map[string]int, error) {
	numbers := map[string]int{}
	for k := range s.numbers() {
		text, err := os.ReadFile(filepath.Join(strings.TrimPrefix(target, "dir:"), dir.FileName(k)))
		if err != nil {
			return nil, err
		}
		var b body
		if err := json.Unmarshal(text, &b); err != nil {
			return nil, err
		}
		numbers[k] = b.N
	}
	return numbers, nil
}

func readSQLite(s *scene, _ string) (map[string]int, error) {
	db, err := sql.Open("sqlite", "file:"+s.path("copy.db")+"?mode=ro")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.QueryContext(s.Context(), "SELECT key, CAST(body AS TEXT) ->> 'n' FROM copy")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	numbers := map[string]int{}
	for rows.Next() {
		var k string
		var n int
		if err := rows.Scan(&k, &n); err != nil {
			return nil, err
		}
		numbers[k] = n
	}
	return numbers, rows.Err()
}

func readPostgres(s *scene, target string) (map[string]int, error) {
	conn, err := pgx.Connect(s.Context(), strings.TrimSuffix(target, "&table=copy"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(s.Context())
	rows, err := conn.Query(s.Context(), "SELECT key, (body ->> 'n')::int FROM copy")
	if err != nil {
		return nil, err
	}
	numbers := map[string]int{}
	var k string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&k, &n}, func() error {
		numbers[k] = n
		return nil
	})
	return numbers, err
}

func readCouchDB(s *scene, target string) (map[string]int, error) {
	var answer struct {
		Rows []struct {
			ID  string
			Doc body
		}
	}
	text := couchtest.Send(s, "GET", strings.TrimPrefix(target, "couchdb:")+"/_all_docs?include_docs=true", "")
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, err
	}
	numbers := map[string]int{}
	for _, row := range answer.Rows {
		numbers[row.ID] = row.Doc.N
	}
	return numbers, nil
}

func readKinto(s *scene, target string) (map[string]int, error) {
	var answer struct {
		Data []struct {
			ID string
			body
			Feedctl struct{ Key string }
		}
	}
	text := kintotest.Send(s, "GET", strings.TrimPrefix(target, "kinto:")+"/records", "")
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, err
	}
	numbers := map[string]int{}
	for _, r := range answer.Data {
		numbers[cmp.Or(r.Feedctl.Key, r.ID)] = r.N
	}
	return numbers, nil
}
