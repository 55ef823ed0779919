package couchtest_test

import (
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/couchtest"
)

// TestServerRequests compares the responses to requests about all databases with those of CouchDB.
func TestServerRequests(t *testing.T) {
	fake := couchtest.NewFake(t)
	get := func(method, path, body string) string {
		t.Helper()
		status, answer := ask(t, method, fake.URL()+path, body)
		return string(rune('0'+status/100)) + " " + sequence.ReplaceAllString(answer, "SEQ")
	}
	check := func(method, path, body, want string) {
		t.Helper()
		if got := get(method, path, body); got != want {
			t.Errorf("%s %s: %s, want %s", method, path, got, want)
		}
	}
	const none = "2 {\"results\":[\n\n],\n\"last_seq\":SEQ}"
	check("GET", "/_db_updates", "", `4 {"error":"not_found","reason":"Database does not exist."}`)
	fake.GlobalChanges()
	check("GET", "/_db_updates", "", none)
	check("POST", "/_db_updates", "", `4 {"error":"method_not_allowed","reason":"Only GET allowed"}`)
	fake.Create("a")
	check("GET", "/_db_updates", "", "2 {\"results\":[\n{\"db_name\":\"a\",\"type\":\"created\",\"seq\":SEQ}\n],\n\"last_seq\":SEQ}")
	fake.AddDoc("a", "x", "{}")
	fake.AddDoc("a", "y", "{}")
	if got := get("GET", "/_db_updates", ""); strings.Count(got, `"updated"`) != 1 || !strings.Contains(got, "},\r\n{") {
		t.Errorf("updates of a database: %s", got)
	}
	check("GET", "/_db_updates?since=now", "", none)
	check("GET", "/_db_updates?feed=continuous&timeout=10&since=now", "", `2 {"last_seq":SEQ}`)
	check("GET", "/_db_updates?feed=other", "", `4 {"error":"bad_request","reason":"Supported `+"`feed`"+` types: normal, continuous, longpoll, eventsource"}`)
	check("POST", "/_dbs_info", `{}`, `4 {"error":"bad_request","reason":"`+"`keys`"+` member must exist."}`)
	check("POST", "/_dbs_info", `{"keys":[]}`, `2 []`)
	check("POST", "/_dbs_info", `{"keys":["b"]}`, `2 [{"key":"b","error":"not_found"}]`)
	if got := get("POST", "/_dbs_info", `{"keys":["b","a"]}`); !strings.HasPrefix(got, `2 [{"key":"b","error":"not_found"},{"key":"a","info":{"instance_start_time":`) {
		t.Error(got)
	}
	fake.MaxInfos = 1
	check("POST", "/_dbs_info", `{"keys":["b","a"]}`, `4 {"error":"bad_request","reason":"too_many_keys"}`)
	fake.NoAdmin = true
	for _, request := range []string{"GET /_db_updates", "POST /_dbs_info", "GET /_dbs_info"} {
		method, path, _ := strings.Cut(request, " ")
		check(method, path, "", `4 {"error":"unauthorized","reason":"You are not a server admin."}`)
	}
}

// TestUpdateSeqRests: the update_seq of a database stays the same until the database changes; if the shards have
// several copies, it is one of as many strings.
func TestUpdateSeqRests(t *testing.T) {
	fake := couchtest.NewFake(t)
	db := fake.NewDB(t)
	different := func() int {
		found := map[string]bool{}
		for range 50 {
			_, text := ask(t, "GET", db, "")
			found[text] = true
		}
		return len(found)
	}
	if n := different(); n != 1 {
		t.Errorf("one server gave %d different answers", n)
	}
	fake.Copies = 3
	if n := different(); n != 3 {
		t.Errorf("a cluster gave %d different answers", n)
	}
}
