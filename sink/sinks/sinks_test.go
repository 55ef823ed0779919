package sinks_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sinks"
)

// TestCheck: a name that Check refuses cannot be opened, either.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, ok := range map[string]bool{
		"jsonl:" + filepath.Join(dir, "a.jsonl"):                         true,
		"jsonl:a.jsonl?table=t":                                          false,
		"dir:" + filepath.Join(dir, "d"):                                 true,
		"dir:d?x=y":                                                      false,
		"sqlite:" + filepath.Join(dir, "a.db") + "?table=t":              true,
		"sqlite:a.db?tabel=t":                                            false,
		"couchdb:http://127.0.0.1:1/db?naem=n":                           false,
		"kinto:http://127.0.0.1:1/v1/buckets/b":                          false,
		"kinto:http://127.0.0.1:1/v1/buckets/b/collections/c?naem=n":     false,
		"kinto:http://127.0.0.1:1/v1/buckets/b/collections/c?name=a%20b": false,
		"postgres://127.0.0.1:1/d":                                       false,
		"postgres://127.0.0.1:1/d?table=pg_class":                        false,
		"postgres://127.0.0.1:1/d?table=t&columns=id":                    false,
		"postgres://127.0.0.1:1/d?table=t&strict=maybe":                  false,
		"postgres://127.0.0.1:x/d?table=t":                               false,
		"slqite:a.db":                                                    false,
	} {
		s, err := sink.ParseSpec(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := sinks.Check(s); (err == nil) != ok || err != nil && !errors.Is(err, sink.ErrSpec) {
			t.Errorf("Check(%q): %v", name, err)
		}
		opened, err := sinks.Open(t.Context(), name, sinks.Options{})
		if (err == nil) != ok || err != nil && !errors.Is(err, sink.ErrSpec) {
			t.Errorf("Open(%q): %v", name, err)
		}
		if err == nil {
			if _, ok := opened.(consumer.Backfiller); ok != sinks.Backfills(s) {
				t.Errorf("Backfills(%q) is %v", name, !ok)
			}
			opened.Close()
		}
	}
	if err := sinks.Check(sink.Spec{Scheme: "postgres", Path: "//127.0.0.1:1/d", Params: map[string][]string{"table": {"s.t"}, "columns": {"id=@key:bigint"}}}); err != nil {
		t.Error(err)
	}
}
