package locate

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIdentity(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	want := map[string]string{
		"file:data":                    "file://" + wd + "/data#f",
		"file:./data/":                 "file://" + wd + "/data#f",
		"file:" + wd + "/data":         "file://" + wd + "/data#f",
		"file://localhost" + wd:        "file://" + wd + "#f",
		"s3://b/p?region=x":            "s3://b/p#f",
		"s3://b/p/?endpoint=http://h":  "s3://b/p#f",
		"s3://b":                       "s3://b#f",
		"s3://b/p/q?path_style=true&x": "s3://b/p/q#f",

		"postgres://u:secret@h/d":                          "postgres://h/d?schema=feedctl#f",
		"postgresql://h/d?sslmode=disable&schema=feedctl":  "postgres://h/d?schema=feedctl#f",
		"postgres://h/d?schema=other":                      "postgres://h/d?schema=other#f",
		"postgres:///d?password=secret&host=%2Frun&port=1": "postgres:///d?host=%2Frun&port=1&schema=feedctl#f",
	}
	for store := range want {
		got[store] = Stored{store, "f"}.Identity()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
