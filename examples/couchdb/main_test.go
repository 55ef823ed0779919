package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/couchdiff"
	"github.com/feedctl/feedctl/internal/couchtest"
)

func Test(t *testing.T) {
	source, target, dir := couchtest.NewDB(t), couchtest.NewDB(t), t.TempDir()
	post(t, source+"/_bulk_docs", `{"docs":[
		{"_id":"Africa/Abidjan","countries":["CI"]},
		{"_id":"Asia/Tokyo","_attachments":{"flag.txt":{"content_type":"text/plain","data":"cmVkIGFuZCB3aGl0ZQ=="}}},
		{"_id":"Europe/Bern","_deleted":true}]}`)
	for _, want := range []string{"published 3, applied 3\n", "published 0, applied 0\n"} {
		var out strings.Builder
		if err := run(t.Context(), &out, source, target, dir); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("printed %q, want %q", out.String(), want)
		}
	}
	differences, err := couchdiff.Compare(t.Context(), source, target)
	if err != nil || differences != nil {
		t.Errorf("the copy is different: %q, %v", differences, err)
	}
}

func post(t *testing.T, url, body string) {
	t.Helper()
	response, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("POST %s: %s", url, response.Status)
	}
}
