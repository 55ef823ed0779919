package sink_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink"
)

func TestParseSpec(t *testing.T) {
	for spec, want := range map[string]sink.Spec{
		"-":                         {Scheme: "-"},
		"jsonl:out.jsonl":           {Scheme: "jsonl", Path: "out.jsonl", Params: url.Values{}},
		"dir:/a b/100%/c:d":         {Scheme: "dir", Path: "/a b/100%/c:d", Params: url.Values{}},
		"sqlite:out.db?table=zones": {Scheme: "sqlite", Path: "out.db", Params: url.Values{"table": {"zones"}}},
	} {
		got, err := sink.ParseSpec(spec)
		if err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spec, diff)
		}
		if got.String() != spec {
			t.Errorf("%s is formatted as %s", spec, got)
		}
	}
}

func TestRedact(t *testing.T) {
	for spec, want := range map[string]string{
		"sqlite:a:b@c?table=zones":                "sqlite:a:b@c?table=zones",
		"postgres://u@h/d?table=t":                "postgres://u@h/d?table=t",
		"postgres://u:se@cret:1@h:1/d?table=t":    "postgres://u:xxxxx@h:1/d?table=t",
		"postgres:///d?password=secret&table=a:b": "postgres:///d?password=xxxxx&table=a:b",
		"postgres://h/d?a=b&sslpassword=x":        "postgres://h/d?a=b&sslpassword=xxxxx",
		"postgres://u:s/e#c?r@e/t@h/d":            "postgres://u:xxxxx@h/d",
		"couchdb:http://u:1a/2@h/d":               "couchdb:http://u:xxxxx@h/d",
		"postgres://u:a@h/d?columns=v=@key:text":  "postgres://u:xxxxx@h/d?columns=v=@key:text",
		"postgres://h:1/d?columns=v=@key:text":    "postgres://h:1/d?columns=v=@key:text",
		"couchdb:http://[::1]:1/d?name=a@b":       "couchdb:http://[::1]:1/d?name=a@b",
		"HTTP://u:secret@h/":                      "HTTP://u:xxxxx@h/",
		"https://token@h/feeds/a":                 "https://xxxxx@h/feeds/a",
		"Https//token@h/feeds/a":                  "Https//xxxxx@h/feeds/a",
		"couchdb:http://token@h/d":                "couchdb:http://xxxxx@h/d",
		"postgres//u:secret@h/d":                  "postgres//u:xxxxx@h/d",
		"Postgres:/u:secret@h/d?PASSWORD=secret":  "Postgres:/xxxxx@h/d?PASSWORD=xxxxx",
		"http:u:secret@h":                         "http:xxxxx@h",
	} {
		if got := sink.Redact(spec); got != want {
			t.Errorf("%s is redacted as %s, want %s", spec, got, want)
		}
	}
}

func TestOpen(t *testing.T) {
	cause := errors.New("opened")
	opener := func(allowed ...string) sink.Opener {
		return func(_ context.Context, s sink.Spec) (consumer.Sink, error) {
			if err := s.CheckParams(allowed...); err != nil {
				return nil, err
			}
			return nil, cause
		}
	}
	registry := sink.Registry{"jsonl": opener(), "sqlite": opener("table"), "-": opener()}
	for spec, want := range map[string]string{
		"":                         "want SCHEME:PATH, or - for standard output",
		"out.jsonl":                "want SCHEME:PATH",
		":out":                     "want SCHEME:PATH",
		"jsonl:":                   `no path after "jsonl:"`,
		"sqlite:?table=t":          `no path after "sqlite:"`,
		"sqlite:a?table=%zz":       "parameters",
		"csv:out":                  `unknown scheme "csv": known are -, jsonl, sqlite`,
		"jsonl:out?table=t":        `unknown parameter "table": it has no parameters`,
		"sqlite:a?tabel=t":         `unknown parameter "tabel": it takes table`,
		"sqlite:a?table=t&table=u": `parameter "table" is given twice`,
	} {
		_, err := registry.Open(t.Context(), spec)
		if !errors.Is(err, sink.ErrSpec) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", spec, err, want)
		}
	}
	for _, spec := range []string{"-", "jsonl:a", "sqlite:a", "sqlite:a?table=t"} {
		if _, err := registry.Open(t.Context(), spec); !errors.Is(err, cause) {
			t.Errorf("%q: %v", spec, err)
		}
	}
}
