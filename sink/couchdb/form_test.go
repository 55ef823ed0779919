package couchdb_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/sink/couchdb"
)

func TestForm(t *testing.T) {
	for body, want := range map[string]string{
		`{}`: "members", ` { "a" : 1 } `: "members", `{"a":[],"b":{}}`: "members",
		`{"a":[1,-1,0,1.5,-0.25,0.001,123456789012345]}`: "members", `{"a":"\"\\\n\t\b\f\r","ü":"ü/\u2028"}`: "both",
		`{"a":"\"\\\n","ü":"/` + "\u2028\x7f" + `"}`: "members",
		`{"a":true,"b":false,"c":null}`:              "members", `{"a":{"_id":1,"feedctl":2}}`: "members",
		`{"a":1.0}`: "both", `{"a":1.50}`: "both", `{"a":1e2}`: "both", `{"a":1E2}`: "both", `{"a":-0}`: "both", `{"a":0.0001}`: "both",
		`{"a":1234567890123456}`: "both", `{"a":12345678901234567890}`: "both", `{"a":"\u00e9"}`: "both", `{"a":"\/"}`: "both",
		`{"a":1,"a":2}`: "both", `{"x":{"a":1,"a":2}}`: "both", `{"1":1}`: "both", `{"x":[{"1":1}]}`: "both", `{"__proto__":1}`: "attachment",
		`{"x":{"__proto__":1}}`: "both", `{"a":"\ufffd"}`: "both",
		`{"a":1e400}`: "attachment", `{"a":"\ud800"}`: "attachment", `{"a":"\u0000"}`: "attachment", `{"feedctl":1}`: "attachment",
		`{"_id":"x"}`: "attachment", `{"\u005fid":"x"}`: "attachment", `[]`: "attachment", `1`: "attachment", ``: "attachment", `{"a":}`: "attachment",
		"{\"a\":\"\xff\"}": "attachment", `{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`: "attachment",
	} {
		if got := couchdb.Form("application/json", body); got != want {
			t.Errorf("%.100s is held as %s, want %s", body, got, want)
		}
	}
	if got := couchdb.Form("text/plain", `{}`); got != "attachment" {
		t.Errorf("text is held as %s", got)
	}
}

// FuzzForm writes JSON with members that should be returned unchanged.
func FuzzForm(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"a":[1.5,-3,{"b":"\n\"\\"}]}`, `{"z":1,"a":{"é":"ü"},"":0.001}`, `{"a":123456789012345}`, `{"a":0.1234}`, `{"10":1,"a":2}`, "{\"a\":\"\u2028\x7f\u0080\"}"} {
		f.Add(s)
	}
	db := couchtest.NewDB(f)
	n := 0
	f.Fuzz(func(t *testing.T, body string) {
		if couchdb.Form("application/json", body) != "members" {
			return
		}
		n++
		url := fmt.Sprintf("%s/%d", db, n)
		couchtest.Send(t, http.MethodPut, url, body)
		got, err := ownMembers([]byte(couchtest.Send(t, http.MethodGet, url, "")))
		if err != nil {
			t.Fatal(err)
		}
		want, err := ownMembers([]byte(body)) // without white space around members
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != compact(t, want) {
			t.Errorf("%s came back as %s", want, got)
		}
	})
}

func TestDocID(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []struct{ key, want string }{
		{"a", "a"}, {"a/b c", "a/b c"}, {"ü", "ü"}, {"-", "-"}, {"...", "..."}, {"a_", "a_"},
		{".", "feedctl:."}, {"..", "feedctl:.."}, {"_design/x", "feedctl:_design%2Fx"}, {"_", "feedctl:_"},
		{"feedctl:a", "feedctl:feedctl%3Aa"}, {"\xff", "feedctl:%FF"}, {"a\n", "feedctl:a%0A"},
		{strings.Repeat("k", 4096), strings.Repeat("k", 4096)},
		{strings.Repeat("ü", 683), "feedctl:sha256:"},
		{strings.Repeat("k", 4097), "feedctl:sha256:"},
	} {
		got := couchdb.DocID(c.key)
		if got != c.want && !(strings.HasPrefix(c.want, "feedctl:sha256:") && strings.HasPrefix(got, "feedctl:sha256:")) {
			t.Errorf("key %.50q has id %.100q, want %.100q", c.key, got, c.want)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("keys %.50q and %.50q have the same id", c.key, other)
		}
		seen[got] = c.key
	}
}
