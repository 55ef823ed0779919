package kinds

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
)

// TestBadFiles: all problems are reported at once, each with its line.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	text := `version: 1
jobs:
  - name: unknown
    kind: consumer
    source: https://h/feeds/a
  - name: options
    kind: consume
    source: https://h/feeds/a
    target: couchdb:http://h/a
    options:
      batch-entites: 10
      retries: many
      follow: true
      header: "X-Api-Key: hunter2"
  - name: values
    kind: consume
    source: https://h/feeds/b
    target: couchdb:http://h/b
    options:
      on-gap: ignore
  - name: snapshots
    kind: bridge couchdb
    source: http://h/db
    target: s3://bucket/p#b
    follow: true
    options:
      snapshot: true
  - name: secrets
    kind: consume
    source: https://ann:hunter2@h/feeds/c
    target: postgres://ann:hunter2@h/d?table=t
  - name: relative
    kind: consume
    source: file:data#a
    target: jsonl:a.jsonl
  - name: nowhere
    kind: consume
    source: file:/data#a
    target: jsonl:/a.jsonl
  - name: unused
    kind: consume
    source: s3://bucket/p#a
    target: sqlite:/a.db?tabel=t
    placement: {node: n}
    credentials:
      source: env:S3
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := All().ReadFiles(file)
	var problems jobs.InvalidError
	if !errors.As(err, &problems) {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprintf("%d %s", p.Line, p.Field))
	}
	want := []string{
		"4 kind",
		"11 options.batch-entites", "12 options.retries", "13 options.follow", "14 options.header",
		"20 options.on-gap",
		"27 options.snapshot",
		"30 source", "31 target",
		"34 source", "35 target",
		"36 placement.node",
		"43 target", "46 credentials.source",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%v", diff, err)
	}
	for _, text := range []string{`did you mean "batch-entities"`, "want a whole number", `want env:NAME or file:PATH`} {
		if !strings.Contains(err.Error(), strings.TrimPrefix(text, "want ")) {
			t.Errorf("no %q in\n%v", text, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a secret is in %v", err)
	}
}

func work(t *testing.T, d jobs.Document) string {
	t.Helper()
	d.Namespace, d.Name, d.Kind, d.Placement.Node = "n", "j", "consume", "node"
	k := All()[d.Kind]
	if problems := k.Check(&d); len(problems) > 0 {
		t.Fatalf("%+v: %v", d, problems)
	}
	return k.Identify(&d).Work
}

// TestSpellings: two documents that spell one job differently have the same Identity.Work.
func TestSpellings(t *testing.T) {
	t.Parallel()
	options := func(pairs ...string) map[string]jobs.Values {
		m := map[string]jobs.Values{}
		for n := 0; n < len(pairs); n += 2 {
			m[pairs[n]] = append(m[pairs[n]], pairs[n+1])
		}
		return m
	}
	for _, same := range [][]jobs.Document{
		{{Source: "https://h/feeds/a"}, {Source: "HTTPS://H:443/feeds/a"}, {Source: "https://h/feeds/%61"}, {Source: "https://h/feeds/a", Follow: true},
			{Source: "https://h/feeds/a", Credentials: map[string]string{"source": "env:A"}},
			{Source: "https://h/feeds/a", Options: options("batch-entities", "5", "retries", "3", "from", "beginning")}},
		{{Source: "file:/data#a"}, {Source: "file:///data/#a"}},
		{{Source: "s3://b/p#a"}, {Source: "s3://b/p/?region=eu-1#a"}},
		{{Source: "postgres://h/d#a"}, {Source: "postgresql://ann@H:5432/d?schema=feedctl&sslmode=disable#a"}},
		{{Source: "https://h/feeds/a", Target: "jsonl:/x/../a"}, {Source: "https://h/feeds/a", Target: "jsonl:/a"}},
		{{Source: "https://h/feeds/a", Target: "couchdb:http://h/d/"}, {Source: "https://h/feeds/a", Target: "couchdb:http://h:80/d"}},
		{{Source: "https://h/feeds/a", Target: "postgres://h/d?table=t"}, {Source: "https://h/feeds/a", Target: "postgres://u@h:5432/d?table=public.t"}},
	} {
		for n := range same {
			if same[n].Target == "" {
				same[n].Target = "sqlite:/a.db"
			}
			if a, b := work(t, same[0]), work(t, same[n]); a != b {
				t.Errorf("%+v and\n%+v are not the same", same[0], same[n])
			}
		}
	}
	seen := map[string]jobs.Document{}
	for _, d := range []jobs.Document{
		{Source: "https://h/feeds/a"}, {Source: "http://h/feeds/a"}, {Source: "https://h:444/feeds/a"}, {Source: "https://h/feeds/A"},
		{Source: "https://h/feeds/a", Target: "sqlite:/a.db?table=t"}, {Source: "https://h/feeds/a", Options: options("from", "latest")},
		{Source: "s3://b/p#a"}, {Source: "s3://b/p?endpoint=http://127.0.0.1:9000#a"}, {Source: "postgres://h/d?schema=x#a"},
	} {
		if d.Target == "" {
			d.Target = "sqlite:/a.db"
		}
		w := work(t, d)
		if other, ok := seen[w]; ok {
			t.Errorf("%+v and\n%+v are the same", d, other)
		}
		seen[w] = d
	}
}

// TestIdentity tests the origins and watches of jobs.
func TestIdentity(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		d    jobs.Document
		want jobs.Identity
	}{
		{jobs.Document{Source: "https://H/x/feeds/a", Target: "couchdb:http://c:5984/db", Credentials: map[string]string{"source": "env:A"}}, jobs.Identity{
			Target: " couchdb:http://c:5984/db?name=", SourceOrigin: "https://h:443", TargetOrigin: "http://c:5984",
			Watch: jobs.Watch{Type: "feedctl", Server: "https://h/x/", Name: "a", Credential: "env:A"}}},
		{jobs.Document{Source: "file:/data#a", Target: "sqlite:/a.db"}, jobs.Identity{
			Target: "node sqlite:/a.db?table=entities", Local: true,
			Watch: jobs.Watch{Type: "store", Server: "file:///data", Name: "a", Local: true}}},
		{jobs.Document{Source: "https://h/changes", Target: "postgres://h/d?table=t"}, jobs.Identity{
			Target: " postgres://h:5432/d?name=&path=&table=public.t", SourceOrigin: "https://h:443", TargetOrigin: "postgres://h:5432"}},
	} {
		test.d.Kind, test.d.Follow, test.d.Placement.Node = "consume", true, "node"
		got := All()["consume"].Identify(&test.d)
		got.Work = ""
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// A requestError has the methods of the request errors in packages consumer and couchdb.
type requestError struct {
	url string
	err error
}

func (e *requestError) Error() string      { return e.url + ": " + e.err.Error() }
func (e *requestError) Unwrap() error      { return e.err }
func (e *requestError) RequestURL() string { return e.url }

// TestClassify: the cause of an error is a server, another run, or the job; errors of the job are
// permanent or temporary.
func TestClassify(t *testing.T) {
	t.Parallel()
	i := jobs.Identity{SourceOrigin: "http://a:80", TargetOrigin: "postgres://b:5432"}
	status := func(code int) error { return &consumer.StatusError{URL: "http://a/feeds/x", StatusCode: code} }
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for _, test := range []struct {
		err    error
		origin string
		is     error
	}{
		{status(500), "http://a:80", nil},
		{status(429), "http://a:80", nil},
		{status(404), "", nil},
		{status(401), "", nil},
		{&consumer.StatusError{URL: "http://cdn/x", StatusCode: 500}, "", nil},
		{&url.Error{Op: "Get", URL: "http://a/x", Err: refused}, "http://a:80", nil},
		{&url.Error{Op: "Get", URL: "http://a/x", Err: consumer.ErrOrigin}, "", nil},
		{fmt.Errorf("open: %w", sink.ErrUnavailable), "postgres://b:5432", nil},
		{fmt.Errorf("open: %w", storage.ErrUnavailable), "http://a:80", nil},
		{refused, "postgres://b:5432", nil},
		{&requestError{"http://a/feeds/x", refused}, "http://a:80", nil},
		{&requestError{"http://cdn/x", refused}, "", nil},
		{&requestError{"http://other/x", &requestError{"http://a/feeds/x", io.ErrUnexpectedEOF}}, "http://a:80", nil},
		{&fs.PathError{Op: "open", Path: "/password", Err: syscall.ENOENT}, "", nil},
		{&requestError{"http://a/feeds/x", &fs.PathError{Op: "write", Path: "/copy", Err: syscall.ENOSPC}}, "", nil},
		{&requestError{"http://a/feeds/x", &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}}, "", nil},
		{fmt.Errorf("open: %w", sink.ErrLocked), "", jobs.ErrDuplicate},
		{fmt.Errorf("open: %w", sink.ErrSpec), "", jobs.ErrRejected},
		{bridge.ErrForeign, "", jobs.ErrRejected},
		{&consumer.NotOldEnoughError{}, "", jobs.ErrRejected},
		{errors.New("other"), "", nil},
	} {
		err := (&kind{stored: "source"}).classify(test.err, i)
		origin := ""
		if e, ok := errors.AsType[*jobs.OriginError](err); ok {
			origin = e.Origin
		}
		if origin != test.origin || !errors.Is(err, test.err) || test.is != nil && !errors.Is(err, test.is) ||
			test.is == nil && (errors.Is(err, jobs.ErrRejected) || errors.Is(err, jobs.ErrDuplicate)) {
			t.Errorf("%v: %v (origin %q), want origin %q, %v", test.err, err, origin, test.origin, test.is)
		}
	}
}

// TestTooManyRequests: a server that responds with 429 is not taken to be down.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	i := jobs.Identity{SourceOrigin: "http://a:80"}
	for code, want := range map[int]bool{429: true, 503: false} {
		for _, err := range []error{&consumer.StatusError{URL: "http://a/x", StatusCode: code}, &couchdb.Error{URL: "http://a/x", Status: code}} {
			e, ok := errors.AsType[*jobs.OriginError]((&kind{}).classify(fmt.Errorf("read: %w", err), i))
			if !ok || e.Throttled != want {
				t.Errorf("%v: %+v, want throttled %v", err, e, want)
			}
		}
	}
}

// TestCommand: if the command line of a job is parsed, the flags have the values of the job's options.
func TestCommand(t *testing.T) {
	t.Parallel()
	d := &jobs.Document{Kind: "consume", Source: "https://h/feeds/it's", Target: "sqlite:/a b.db?table=t", Follow: true, Options: map[string]jobs.Values{
		"header": {"Accept-Language: de", "X: y"}, "retries": {"-1"}, "strict": {"false"}, "key": {"/a"},
	}}
	line, ok := strings.CutPrefix(Command(d), "feedctl consume ")
	if !ok {
		t.Fatal(line)
	}
	c := &consumeRun{}
	flags := pflag.NewFlagSet("consume", pflag.ContinueOnError)
	c.Flags(flags)
	if err := flags.Parse(words(line)); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if diff := cmp.Diff([]any{d.Source, d.Target, true, -1, "/a", []string{"Accept-Language: de", "X: y"}},
		[]any{flags.Arg(0), c.Into, c.Consume.Follow, c.Client.Retries, c.Key, c.Client.Headers}); diff != "" {
		t.Errorf("%s: %s", line, diff)
	}
}

// session counts calls of its methods.
type session struct{ caughtUp, busy int }

func (s *session) CaughtUp() { s.caughtUp++ }
func (s *session) Busy()     { s.busy++ }

// TestWaiting: a run counts as busy once it has processed something, until its next check finds no
// more.
func TestWaiting(t *testing.T) {
	t.Parallel()
	var s session
	var stats jobs.Stats
	w := &waiting{session: &s, stats: func() jobs.Stats { return stats }}
	w.look()
	stats.Entities = 2
	w.look()
	if s != (session{0, 1}) {
		t.Errorf("%+v after entities, want busy", s)
	}
	stats.Entities = 3
	w.idle()
	w.look()
	if s != (session{1, 1}) {
		t.Errorf("%+v after a check, want caught up", s)
	}
}

// TestPassword: the credential of a database is a password, which is put only into the URL of the
// database. Sinks and feeds do not use it as their own credential.
func TestPassword(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("not basic\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	reference := "file:" + file
	d := &jobs.Document{Kind: "consume", Source: "postgres://u@h/a#feed", Target: "postgres://u@h/b?table=t", Credentials: map[string]string{"source": reference, "target": reference}}
	k := consume
	p, problems := k.parse(d)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	c, err := resolve(p)
	if err != nil {
		t.Fatal(err)
	}
	p.runner.Arguments(d, c)
	r := p.runner.(*consumeRun)
	got := []any{r.Feed, r.Into, r.Client.Credential, r.IntoCredential}
	want := []any{"postgres://u:not%20basic@h/a#feed", "postgres://u:not%20basic@h/b?table=t", credential.Source{}, credential.Source{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if line := Command(d); strings.Count(line, "PGPASSWORD=") != 1 {
		t.Errorf("%s: want the password once", line)
	}
}

// TestCommandPasswords lets a shell execute commands of jobs with two databases, whose passwords
// are in variables and files.
func TestCommandPasswords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := "#!/bin/sh\nprintf '%s\\n' \"$PGPASSWORD\" \"$@\"\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "feedctl"), []byte(program), 0o700), os.WriteFile(filepath.Join(dir, "it's"), []byte("of a file\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	const secret = `/%@:?# "$(x)\' ü`
	for _, d := range []*jobs.Document{
		{Kind: "outbox run", Source: "postgres://a@h/x", Target: "postgres://b@h/y?schema=z", Options: map[string]jobs.Values{"feed": {"f"}}},
		{Kind: "consume", Source: "postgres://a@h/x#f", Target: "postgres://b@h/y?table=t"},
		{Kind: "consume", Source: "postgres://a@h/x#f", Target: "postgres://h/y?table=t@h/y"},
	} {
		for target, want := range map[string]string{"env:TARGET": secret, "file:" + filepath.Join(dir, "it's"): "of a file", "env:SOURCE": "", "": ""} {
			d.Credentials = map[string]string{"source": "env:SOURCE", "target": target}
			if target == "" {
				delete(d.Credentials, "target")
			}
			line := Command(d)
			shell := exec.CommandContext(t.Context(), "sh", "-c", line)
			shell.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "SOURCE=of the source", "TARGET="+secret)
			out, err := shell.Output()
			printed := strings.Split(string(out), "\n")
			i := slices.IndexFunc(printed, func(word string) bool { return strings.Contains(word, "h/y") })
			if err != nil || printed[0] != "of the source" || i < 0 || strings.Contains(line, secret) {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
			if u, err := url.Parse(printed[i]); err != nil || passwordOf(u) != want {
				t.Errorf("%s: password %q, want %q (%v)", line, passwordOf(u), want, err)
			}
		}
	}
}

func passwordOf(u *url.URL) string {
	text, _ := u.User.Password()
	return text
}

// words splits a line as a shell does.
func words(line string) (list []string) {
	word, quoted := "", false
	for n := 0; n < len(line); n++ {
		switch c := line[n]; {
		case c == '\'':
			quoted = !quoted
		case quoted:
			word += string(c)
		case c == '\\':
			n++
			word += string(line[n])
		case c == ' ':
			list, word = append(list, word), ""
		default:
			word += string(c)
		}
	}
	return append(list, word)
}
