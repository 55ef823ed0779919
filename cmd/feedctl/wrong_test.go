package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/exit"
)

// TestInvalidInput: errors of invalid input say once what is wrong, where, and what to do.
func TestInvalidInput(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("AWS_ACCESS_KEY_ID", "feedctl")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	if err := os.WriteFile("in.ndjson", []byte("{\"id\":\"a\"}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := feedctl(t, "", "publish", "file:st#zones", "in.ndjson"); code != exit.OK {
		t.Fatal(stderr)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/bucket") {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte("<Error><Code>NoSuchBucket</Code><Message>The bucket is missing</Message></Error>"))
			return
		}
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"feeds":[{"name":"zones","url":"/feeds/zones"}]}`))
	}))
	defer server.Close()
	for _, test := range []struct {
		line string
		want string // in the error
		once string // in the error, exactly once
	}{
		{"publish file:st#zones in.ndjson --format csv --key /id", `--format "csv" is not one of ndjson, multipart, dir, raw` + "\n", "--format"},
		{"publish file:st#zones in.ndjson --format ndjsn --key /id", `did you mean "ndjson"?`, "--format"},
		{"publish file:st#zones in.ndjson --key /no", `publish in.ndjson to zones: after 0 entities: read entity: line 1: `, "in.ndjson"},
		{"doctor ./st", `for the store in a directory write "file:./st"`, "file:./st"},
		{"doctor st", `for the store in a directory write "file:st"`, "file:st"},
		{"inspect ./st", `for the store in a directory write "file:./st#NAME"`, "file:./st"},
		{"verify ./st#zones", `for the store in a directory write "file:./st#zones"`, "file:./st"},
		{"list --store ./st", `for the store in a directory write "file:./st"`, "file:./st"},
		{"consume file:st#zones --into jsonl:none/a.jsonl", "directory none does not exist: create it first\n", "open sink"},
		{"consume file:st#zones --into dir:none/a", "directory none does not exist: create it first\n", "open sink"},
		{"consume file:st#zones --into sqlite:none/a.db", "none does not exist: create it first\n", "open sink"},
		{"consume file:st#zones --into sqlite:a.db?tabel=x", `it takes table; did you mean "table"?`, "open sink"},
		{"consume file:st#zones --into josnl:a", `did you mean "jsonl"?`, "invalid sink"},
		{"consume file:st#zones --into couchdb:http://127.0.0.1:1/db?nam=x", `it takes name; did you mean "name"?`, "couchdb:http"},
		{"consume file:st#zones --into couchdb:http://127.0.0.1:1/db?name=,", `open sink couchdb:http://127.0.0.1:1/db?name=%2C: invalid sink: name ","`, "couchdb:http"},
		{"inspect s3://bucket/p?regoin=eu#a", `did you mean "region"?`, "unknown parameter"},
		{"inspect s3://bucket/p?region=eu&endpoint=" + server.URL + "#a", "there is no store: the bucket does not exist; create it, or correct the URL", "s3://bucket"},
		{"publish s3://bucket/p?region=eu&endpoint=" + server.URL + "#a in.ndjson", "there is no store: the bucket does not exist", "there is no store"},
		{"inspect postgres://u@127.0.0.1:1/db?scema=x#a", `unknown parameter "scema"; did you mean "schema"?`, "unknown"},
		{"consume file:st#zones --into postgres://127.0.0.1:1/db?tabel=x", `unknown parameter "tabel"; did you mean "table"?`, "unknown"},
		{"inspect file:none#a", `open store "file:none": there is no store: stat `, "open store"},
		{"publish file:in.ndjson#a in.ndjson", `open store "file:in.ndjson": `, "open store"},
		{"inspect file:st#zonse", `did you mean "zones"?`, "zonse"},
		{"verify file:st#zonse", `did you mean "zones"?`, "did you"},
		{"tail file:st#zonse --follow=false", `did you mean "zones"?`, "did you"},
		{"consume file:st#zonse --into jsonl:a.jsonl", `did you mean "zones"?`, "did you"},
		{"inspect " + server.URL + "/feeds/zonse", `did you mean "zones"?`, "did you"},
		{"verify " + server.URL + "/feeds/zonse", `did you mean "zones"?`, "did you"},
	} {
		code, _, stderr := feedctl(t, "", strings.Fields(test.line)...)
		if code == exit.OK || !strings.Contains(stderr, test.want) {
			t.Errorf("feedctl %s: exit status %d, %q, want %q", test.line, code, stderr, test.want)
		}
		if first, _, _ := strings.Cut(stderr, "\nTry: "); strings.Count(first, test.once) != 1 {
			t.Errorf("feedctl %s: %q, want %q in it once", test.line, stderr, test.once)
		}
	}
	if _, err := os.Stat("none"); err == nil {
		t.Error("a directory was created")
	}
}
