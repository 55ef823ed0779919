package server

import (
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/httpfield"
)

func TestPreferredWait(t *testing.T) {
	for _, tt := range []struct {
		header []string
		want   int
	}{
		{nil, 0},
		{[]string{"wait=10"}, 10},
		{[]string{"Wait=10"}, 10},
		{[]string{`wait="10"`}, 10},
		{[]string{"wait = 10 ; x=y"}, 10},
		{[]string{"respond-async, wait=10"}, 10},
		{[]string{"respond-async", "wait=10"}, 10},
		{[]string{"wait=10, wait=20"}, 10}, // RFC 7240, section 2: the first one is used
		{[]string{"wait=x, wait=20"}, 0},
		{[]string{"wait"}, 0},
		{[]string{"wait="}, 0},
		{[]string{"wait=-1"}, 0},
		{[]string{"wait=1.5"}, 0},
		{[]string{"waiting=5"}, 0},
		{[]string{"wait=61"}, 60},
		{[]string{"wait=99999999999999999999999999"}, 60},
	} {
		if got := preferredWait(tt.header, time.Minute); got != time.Duration(tt.want)*time.Second {
			t.Errorf("preferredWait(%q) = %v, want %d s", tt.header, got, tt.want)
		}
	}
	if got := preferredWait([]string{"wait=5"}, 1500*time.Millisecond); got != time.Second {
		t.Errorf("a limit of 1.5 s grants %v, want whole seconds", got)
	}
}

func FuzzPreferredWait(f *testing.F) {
	f.Add("respond-async, wait=10; a=b")
	f.Add(`wait="`)
	f.Fuzz(func(t *testing.T, header string) {
		got := preferredWait([]string{header}, time.Minute)
		if got < 0 || got > time.Minute || got%time.Second != 0 {
			t.Fatalf("preferredWait(%q) = %v", header, got)
		}
		if got > 0 && !strings.Contains(strings.ToLower(header), "wait") {
			t.Fatalf("preferredWait(%q) = %v without a wait preference", header, got)
		}
	})
}

func FuzzMatchesETag(f *testing.F) {
	f.Add(`W/"a", "b"`, "a")
	f.Add(`"`, "")
	f.Fuzz(func(t *testing.T, header, tag string) {
		if strings.ContainsAny(tag, "\"") {
			return
		}
		etag := `"` + tag + `"`
		if httpfield.MatchesETag([]string{header}, etag, false) && !httpfield.MatchesETag([]string{header}, etag, true) {
			t.Fatalf("%q matches %q strongly but not weakly", header, etag)
		}
		if httpfield.MatchesETag([]string{header}, etag, true) && !strings.Contains(header, etag) && !strings.Contains(header, "*") {
			t.Fatalf("%q matches %q", header, etag)
		}
		if !httpfield.MatchesETag([]string{`"x", ` + etag + ", " + header}, etag, false) {
			t.Fatalf("a list that has %q does not match it", etag)
		}
	})
}
