package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/patch"
	"github.com/feedctl/feedctl/sink/postgres"
)

func change(n int, key, body string) *feed.Entity {
	e := entity(n, key, body)
	e.Operation, e.ContentType = feed.Patch, patch.Merge
	return e
}

func gone(n int, key string) *feed.Entity {
	e := entity(n, key, "")
	e.Operation, e.Body = feed.Delete, nil
	return e
}

// testPatchRefused: the server refuses some patches in a batch. Later patches are applied to the
// row in the table.
func testPatchRefused(t *testing.T, w *world) {
	w.exec("CREATE TABLE t (id int PRIMARY KEY, v int CHECK (v <> 7), doc jsonb)", "CREATE TABLE uses (id int REFERENCES t)")
	k := w.open(t, postgres.Options{Table: "t", Columns: "id=@key:int,v=/v:int,doc=:jsonb"})
	write(t, k, entity(1, "1", `{"v":1}`), entity(2, "2", `{"v":2}`), entity(3, "3", `{"v":3}`), entity(4, "4", `{"v":4}`))
	w.exec("INSERT INTO uses VALUES (3)")
	write(t, k,
		entity(11, "1", `{"v":"x","a":1}`), change(12, "1", `{"b":2}`), change(13, "1", `{"c":3}`),
		change(14, "2", `{"v":7}`), change(15, "2", `{"d":4}`), // a constraint refuses 7
		gone(16, "3"), change(17, "3", `{"e":5}`), // another table refers to key 3
		entity(18, "5", `{"v":7}`), change(19, "5", `{"f":6}`), // 5 is refused: no row to patch
		gone(20, "4"), change(21, "4", `{"g":7}`), entity(22, "4", `{"v":8}`), change(23, "4", `{"h":8}`),
		entity(24, "x", `{"v":9}`), change(25, "x", `{"i":9}`), // not an int
		entity(26, "6", `{"v":1}`), change(27, "6", `{"v":[1]}`), change(28, "6", `{"j":10}`))
	want := map[string]string{"1": `{"b": 2, "c": 3, "v": 1}`, "2": `{"d": 4, "v": 2}`, "3": `{"e": 5, "v": 3}`, "4": `{"h": 8, "v": 8}`, "6": `{"j": 10, "v": 1}`}
	if diff := cmp.Diff(want, w.pairs("SELECT id::text, doc::text FROM t")); diff != "" {
		t.Error(diff)
	}
	refused := map[string]string{
		"<11@example.com>": "PUT", "<14@example.com>": "PATCH", "<16@example.com>": "DELETE", "<18@example.com>": "PUT", "<19@example.com>": "PATCH",
		"<21@example.com>": "PATCH", "<24@example.com>": "PUT", "<25@example.com>": "PATCH", "<27@example.com>": "PATCH",
	}
	if diff := cmp.Diff(refused, w.pairs("SELECT content_id, operation FROM feedctl_quarantine")); diff != "" || k.Rejected().Quarantined != int64(len(refused)) {
		t.Errorf("%d in quarantine (-want +got):\n%s", k.Rejected().Quarantined, diff)
	}
	// A patch with an invalid key is quarantined even if the batch has no other entity for that
	// key.
	write(t, k, change(31, "y", `{}`), change(32, "1", `{"b":null}`))
	if got := w.value("SELECT operation FROM feedctl_quarantine WHERE content_id = '<31@example.com>'"); got != "PATCH" {
		t.Errorf("quarantine has %q", got)
	}
	if got := w.value("SELECT doc FROM t WHERE id = 1"); got != `{"c": 3, "v": 1}` {
		t.Errorf("row is %s", got)
	}
}

// testPatchOneByOne applies batches of several sizes, each with a refused entity. The table
// must equal the result of applying the entities one by one.
func testPatchOneByOne(t *testing.T, w *world) {
	patchOneByOne(t, w, "key", "v=/v:int,doc=:jsonb", `"x"`, 1, entity(1000, "bad", `{"v":"x"}`))
}

// testPatchSameKey is like testPatchOneByOne, with different keys that are equal in the column.
func testPatchSameKey(t *testing.T, w *world) {
	patchOneByOne(t, w, "id", "id=@key:int,v=/v:int,doc=:jsonb", `0`, 3)
}

// patchOneByOne applies random entities in batches of several sizes, and adds the extra entities to
// each batch. Keys have at most zeros-1 leading zeros.
func patchOneByOne(t *testing.T, w *world, key, columns, value string, zeros int, more ...*feed.Entity) {
	rng := rand.New(rand.NewPCG(1, 2))
	var entities []*feed.Entity
	for n := range 240 {
		name := strings.Repeat("0", rng.IntN(zeros)) + fmt.Sprint(rng.IntN(5))
		// No patch corrects a refused value: it stays refused until the next PUT.
		switch rng.IntN(8) {
		case 0:
			entities = append(entities, entity(n, name, `{"v":`+value+`}`))
		case 1:
			entities = append(entities, gone(n, name))
		case 2, 3:
			entities = append(entities, entity(n, name, fmt.Sprintf(`{"v":%d}`, n)))
		default:
			entities = append(entities, change(n, name, fmt.Sprintf(`{"p%d":%d}`, n%3, n)))
		}
	}
	var want, refused map[string]string
	for _, size := range []int{1, 2, 7, 30, 240} {
		table := fmt.Sprintf("t_%d", size)
		k := w.open(t, postgres.Options{Table: table, Columns: columns})
		for batch := range slices.Chunk(entities, size) {
			write(t, k, append(slices.Clone(batch), more...)...)
		}
		k.Close()
		rows := w.pairs("SELECT " + key + "::text, doc::text FROM " + table)
		reasons := w.pairs("SELECT content_id, operation FROM feedctl_quarantine WHERE key <> 'bad' AND table_name = '" + table + "'")
		if size == 1 {
			want, refused = rows, reasons
			continue
		}
		if diff := cmp.Diff(want, rows); diff != "" {
			t.Errorf("batches of %d (-want +got):\n%s", size, diff)
		}
		if diff := cmp.Diff(refused, reasons); diff != "" {
			t.Errorf("quarantine of batches of %d (-want +got):\n%s", size, diff)
		}
	}
	if len(refused) < 10 || len(want) < 3 {
		t.Errorf("%d rows, %d in quarantine: too few for a comparison", len(want), len(refused))
	}
}
