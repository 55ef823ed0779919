package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/internal/pgtest"
)

// A trip holds a store and its server, through which data travels from one system to another.
type trip struct {
	*rig
	kinto string // URL of a collection
}

func newTrip(t *testing.T) *trip {
	r := &trip{&rig{t: t, dir: t.TempDir(), store: "file:" + t.TempDir()}, kintotest.Start(t, kintotest.PostgreSQL).NewCollection(t)}
	feedctl(t, "init", r.store)
	r.startServer(0)
	return r
}

// bridge publishes all changes of the collection.
func (r *trip) bridge() {
	r.t.Helper()
	feedctl(r.t, "bridge", "kinto", r.kinto, "events", "--store", r.store, "--index", r.path("index"))
}

func (r *trip) consume(into string) {
	r.t.Helper()
	feedctl(r.t, "consume", r.url(0), "--into", into)
}

// decoded returns the records of a collection as JSON values, by the key of their entity, without the
// members that the server and the sink add.
func decoded(t *testing.T, collection string) map[string]any {
	t.Helper()
	byKey := map[string]any{}
	for id, record := range plainRecords(t, kintoRecords(t, collection)) {
		members := record.(map[string]any)
		if about, ok := members["feedctl"].(map[string]any); ok {
			if key, ok := about["key"].(string); ok {
				id = key
			}
			delete(members, "feedctl")
			delete(members, "id")
			if body, ok := about["body"].(string); ok { // the body has a member that Kinto reserves, such as id
				if err := json.Unmarshal([]byte(body), &members); err != nil {
					t.Fatalf("%s: %v", body, err)
				}
			}
		}
		byKey[id] = members
	}
	return byKey
}

// TestKintoAndPython: the bridge reads what kinto-http.py wrote, and kinto-http.py reads what the sink
// wrote.
func TestKintoAndPython(t *testing.T) {
	t.Parallel()
	r := newTrip(t)
	copied := kintotest.Start(t, kintotest.PostgreSQL).NewCollection(t)
	from, into := kintotest.StartPython(t, r.kinto), kintotest.StartPython(t, copied)
	for n, call := range []struct {
		method string
		args   map[string]any
	}{
		{"create_record", map[string]any{"id": "a", "data": map[string]any{"text": "<é\u2028>", "n": 1.5}}},
		{"create_record", map[string]any{"id": "b", "data": map[string]any{"list": []any{nil, true, map[string]any{}}}}},
		{"create_record", map[string]any{"id": "c", "data": map[string]any{"gone": true}}},
		{"update_record", map[string]any{"id": "a", "data": map[string]any{"text": "other"}}},
		{"patch_record", map[string]any{"id": "b", "data": map[string]any{"more": 1}}},
		{"delete_record", map[string]any{"id": "c"}},
		{"create_record", map[string]any{"id": "d", "data": map[string]any{"deleted": true}}},
	} {
		from.Call(call.method, call.args, nil)
		if n%3 == 2 {
			r.bridge()
			r.consume("kinto:" + copied)
		}
	}
	r.bridge()
	r.consume("kinto:" + copied)
	read := func(c *kintotest.Client) map[string]map[string]any {
		var list []map[string]any
		c.Call("get_records", nil, &list)
		records := map[string]map[string]any{}
		for _, record := range list {
			delete(record, "last_modified")
			records[record["id"].(string)] = record
		}
		return records
	}
	want := map[string]map[string]any{
		"a": {"id": "a", "text": "other"},
		"b": {"id": "b", "list": []any{nil, true, map[string]any{}}, "more": 1.0},
		"d": {"id": "d", "deleted": true},
	}
	if diff := cmp.Diff(want, read(from)); diff != "" {
		t.Errorf("kinto-http.py wrote (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, read(into)); diff != "" {
		t.Errorf("what kinto-http.py reads from the sink (-want +got):\n%s", diff)
	}
}

// TestKintoToCouchDB: records become documents.
func TestKintoToCouchDB(t *testing.T) {
	t.Parallel()
	r := newTrip(t)
	db := couchtest.Start(t).NewDB(t)
	for _, id := range []string{"a", "b", "gone"} {
		kintotest.Send(t, http.MethodPut, r.kinto+"/records/"+id, `{"data":{"text":"<é>","n":1.5,"of":{"id":"`+id+`"}}}`)
	}
	r.bridge()
	r.consume("couchdb:" + db)
	kintotest.Send(t, http.MethodPut, r.kinto+"/records/b", `{"data":{"text":"other"}}`)
	kintotest.Send(t, http.MethodDelete, r.kinto+"/records/gone", "")
	r.bridge()
	r.consume("couchdb:" + db)
	var list struct {
		Rows []struct{ Doc map[string]any }
	}
	w := couchWriter{db: db}
	if _, err := w.do(t.Context(), http.MethodGet, "/_all_docs?include_docs=true", nil, &list); err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, row := range list.Rows {
		if id := row.Doc["_id"].(string); !strings.HasPrefix(id, "_") {
			for name := range row.Doc {
				if name[0] == '_' || name == "last_modified" || name == "feedctl" {
					delete(row.Doc, name)
				}
			}
			got[id] = row.Doc
		}
	}
	if diff := cmp.Diff(plainRecords(t, kintoRecords(t, r.kinto)), got); diff != "" {
		t.Errorf("documents differ (-want +got):\n%s", diff)
	}
}

// TestCouchDBToKinto: documents become records, including those whose ids Kinto does not accept.
func TestCouchDBToKinto(t *testing.T) {
	t.Parallel()
	r := newTrip(t)
	db := couchtest.Start(t).NewDB(t)
	w := couchWriter{db: db}
	want := map[string]any{}
	put := func(id string, doc map[string]any) {
		t.Helper()
		have, _, err := w.get(t.Context(), id)
		if err == nil {
			if have.Rev != "" {
				doc["_rev"] = have.Rev
			}
			_, err = w.do(t.Context(), http.MethodPut, docPath(id), doc, &answer{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	trip := func() {
		t.Helper()
		feedctl(t, "bridge", "couchdb", db, "events", "--store", r.store, "--index", r.path("index"))
		r.consume("kinto:" + r.kinto)
	}
	for _, id := range []string{"plain", "a/b ", "käse+", "gone"} {
		put(id, map[string]any{"text": id, "n": 1.5})
		want[id] = map[string]any{"text": id, "n": 1.5}
	}
	trip()
	put("a/b ", map[string]any{"text": "other"})
	want["a/b "] = map[string]any{"text": "other"}
	put("gone", map[string]any{"_deleted": true})
	delete(want, "gone")
	trip()
	got := decoded(t, r.kinto)
	for _, record := range got {
		for name := range record.(map[string]any) {
			if name[0] == '_' {
				delete(record.(map[string]any), name)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records differ (-want +got):\n%s", diff)
	}
}

// TestPostgreSQLToKinto: the changes to a table reach a collection.
func TestPostgreSQLToKinto(t *testing.T) {
	t.Parallel()
	r := newTrip(t)
	db := pgtest.Start(t).URL("to_kinto")
	conn, err := pgx.Connect(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	trip := func() {
		t.Helper()
		feedctl(t, "outbox", "run", "--db", db, "--feed", "events", "--store", r.store, "--once")
		r.consume("kinto:" + r.kinto)
	}
	exec("CREATE TABLE products (id text PRIMARY KEY, name text, price float, tags jsonb)")
	feedctl(t, "init", db)
	feedctl(t, "outbox", "attach", "--db", db, "--table", "products", "--feed", "events", "--store", r.store)
	exec(`INSERT INTO products VALUES ('1', 'tea', 4.5, '["a"]'), ('2', 'coffee', 6.25, NULL), ('x/y', '<é>', NULL, '{"deleted": true}')`)
	trip()
	exec("UPDATE products SET price = 4.75 WHERE id = '1'; DELETE FROM products WHERE id = '2'")
	trip()
	want := map[string]any{}
	rows, err := conn.Query(t.Context(), "SELECT id, row_to_json(products) FROM products")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var id string
		var row json.RawMessage
		if err := rows.Scan(&id, &row); err != nil {
			t.Fatal(err)
		}
		var members map[string]any
		if err := json.Unmarshal(row, &members); err != nil {
			t.Fatal(err)
		}
		want[id] = members
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, decoded(t, r.kinto)); diff != "" {
		t.Errorf("records differ (-want +got):\n%s", diff)
	}
}

// TestKintoToPostgreSQL: records become rows, with the text that the server sends.
func TestKintoToPostgreSQL(t *testing.T) {
	t.Parallel()
	r := newTrip(t)
	db := pgtest.Start(t).URL("from_kinto")
	for id, record := range map[string]string{
		"a": `{"text":"<é\u2028>","n":1.50}`, "b": `{"list":[null,1e2,{}]}`, "c": `{"deleted":true}`, "gone": `{}`,
	} {
		kintotest.Send(t, http.MethodPut, r.kinto+"/records/"+id, `{"data":`+record+`}`)
	}
	trip := func() {
		t.Helper()
		r.bridge()
		r.consume(db + "&table=public.records")
	}
	trip()
	kintotest.Send(t, http.MethodPatch, r.kinto+"/records/b", `{"data":{"text":"other"}}`)
	kintotest.Send(t, http.MethodPut, r.kinto+"/records/c", `{"data":{}}`)
	kintotest.Send(t, http.MethodDelete, r.kinto+"/records/gone", "")
	kintotest.Send(t, http.MethodPut, r.kinto+"/records/new", `{"data":{"deleted":true}}`)
	trip()
	conn, err := pgx.Connect(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), "SELECT key, content_type, body::text FROM records")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for rows.Next() {
		var key, contentType, body string
		if err := rows.Scan(&key, &contentType, &body); err != nil {
			t.Fatal(err)
		}
		got[key] = contentType + " " + body
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for id, record := range kintoRecords(t, r.kinto) {
		want[id] = "application/json " + string(record)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) != 4 {
		t.Errorf("rows differ (-want +got):\n%s", diff)
	}
}
