package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/cli"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/storage/stores"
)

// feedctl runs a command line in this process.
func feedctl(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var out, err bytes.Buffer
	code = run(t.Context(), args, app.Streams{In: strings.NewReader(stdin), Out: &out, Err: &err})
	return code, out.String(), err.String()
}

func walk(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		walk(sub, visit)
	}
}

func TestEveryCommandIsDocumented(t *testing.T) {
	walk(newRoot(app.New(app.Streams{})), func(c *cobra.Command) {
		name := c.CommandPath()
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short help is %q", name, c.Short)
		}
		if !strings.Contains(c.Long, "\n\nExit status:\n    0  ") {
			t.Errorf("%s: help does not list exit statuses", name)
		}
		if !strings.Contains(c.Example, "  feedctl") && !strings.Contains(c.Example, "| feedctl") {
			t.Errorf("%s: help has no example", name)
		}
		for line := range strings.SplitSeq(c.Long, "\n") {
			if len(line) > 92 {
				t.Errorf("%s: help has a line of %d characters: %s", name, len(line), line)
			}
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: --%s has no help", name, f.Name)
			}
			if value, _ := pflag.UnquoteUsage(f); value != strings.ToUpper(value) {
				t.Errorf("%s: --%s takes a %q, without backquotes", name, f.Name, value)
			}
		})
	})
}

// TestFlagNames: a variable with a credential must not be taken for a flag.
func TestFlagNames(t *testing.T) {
	walk(newRoot(app.New(app.Streams{})), func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if strings.HasSuffix(f.Name, "credentials") {
				t.Errorf("--%s of %s takes a credential from %s", f.Name, c.CommandPath(), cli.Variable(c, f.Name))
			}
		})
	})
}

func TestUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"bogus"},
		{"snapshot"},
		{"snapshot", "bogus"},
		{"version", "--bogus"},
		{"version", "extra"},
		{"publish"},
		{"publish", "feed", "--key", "id"},
		{"publish", "feed", "--op", "UPSERT"},
		{"publish", "feed", "--format", "xml"},
		{"publish", "feed", "--format", "raw", "--key", "/id"},
		{"publish", "../etc", "-"},
		{"publish", "feed", "--max-page-bytes", "-1"},
		{"publish", "feed", "--max-page-bytes", "0"},
		{"publish", "feed", "--max-page-entities", "-1"},
		{"publish", "feed", "--max-page-entities", "0"},
		{"bridge", "couchdb", "http://127.0.0.1:1/db", "feed", "--max-page-bytes", "-1"},
		{"publish", "http://h/x"},
		{"publish", "feed", "--to", "http://127.0.0.1:1", "--retries", "0"},
		{"prune", "http://h/feeds/x", "--before-snapshot", "x"},
		{"consume", "http://h/feeds/a"},
		{"consume", "feeds/a", "--into", "-"},
		{"consume", "http://h/feeds/a", "--into", "-", "--from", "yesterday"},
		{"consume", "http://h/feeds/a", "--into", "-", "--on-gap", "ignore"},
		{"consume", "http://h/other", "--into", "-", "--from", "snapshot"},
		{"consume", "http://h/feeds/a", "--into", "-", "--header", "Authorization: x"},
		{"consume", "http://h/feeds/a", "--into", "tape:0"},
		{"consume", "http://127.0.0.1:1/feeds/a", "--into", "-", "--batch-entities", "-1"},
		{"consume", "http://127.0.0.1:1/feeds/a", "--into", "-", "--batch-bytes", "-1"},
		{"serve", "--cache-size", "1073741824", "--tls-cert", "none", "--tls-key", "none"},
		{"prune", "feed"},
		{"completion", "tcsh"},
		{"version", "--log-level", "loud"},
		{"version", "--log-format", "xml"},
		{"version", "--config", "/nonexistent.yaml"},
		{"inspect", "feed", "--store", "tape:0"},
		{"inspect", "feed", "--store", "file:"},
		{"inspect", "feed", "--store", "file://host/dir"},
		{"inspect", "feed", "--store", "file:dir?x=1"},
		{"inspect", "feed", "--store", "file:100%"},
		{"inspect", "feed", "--store", "memory:x"},
		{"publish", "file:#a"},
		{"doctor", "file:"},
	} {
		code, stdout, stderr := feedctl(t, "", args...)
		if code != exit.Usage || !strings.HasPrefix(stderr, "feedctl: ") || stdout != "" {
			t.Errorf("feedctl %s: exit status %d, stdout %q, stderr %q", strings.Join(args, " "), code, stdout, stderr)
		}
	}
}

// TestUsageErrorsHelp: usage errors name the help, or what is expected.
func TestUsageErrorsHelp(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"publish", "Try: feedctl publish --help\n"},
		{"snapshot create", "Try: feedctl snapshot create --help\n"},
		{"consume http://h/feeds/a", "Try: feedctl consume --help\n"},
		{"consume http://h/feeds/a --bogus", "Try: feedctl consume --help\n"},
		{"bogus", "Try: feedctl --help\n"},
		{"publish a --op COPY", "feedctl: --op \"COPY\" is not one of PUT, PATCH, DELETE\n"},
		{"inspect http://[::1", "feedctl: URL \"http://[::1\" cannot be parsed\n"},
		{"publish http://h:1/data/feeds/x", "feedctl: \"http://h:1/data/feeds/x\" is a feed on a server: publish to it with --to\nTry: feedctl publish x --to http://h:1/data\n"},
		{"publish http://ann:secret@h/feeds/x", "with a line \"basic USER:PASSWORD\" or \"bearer TOKEN\"\n"},
		{"publish http://h/x", "is on a server: want NAME, in the store of --store, or STORE#NAME\n"},
		{"tail postgres://u:se#cret@h/db#feed", "feedctl: \"postgres://u:xxxxx@h/db#feed\" has more than one \"#\": write it as %23 in the URL of STORE\n"},
		{"inspect a --store s3://bucket:prefix", "is not a URL: want " + stores.Forms + "; write \"%\" as %25 in a path\n"},
		{"publish a --to 127.0.0.1:8080", "feedctl: URL \"127.0.0.1:8080\" must begin with http:// or https://\n"},
		{"publish a --to localhost:8080", "feedctl: URL \"localhost:8080\" must begin with http:// or https://\n"},
	} {
		_, _, stderr := feedctl(t, "", strings.Fields(test.line)...)
		if !strings.HasSuffix(stderr, test.want) {
			t.Errorf("feedctl %s: %q, want %q", test.line, stderr, test.want)
		}
	}
}

// TestInspectErrors: a table is not printed before its first row.
func TestInspectErrors(t *testing.T) {
	code, stdout, stderr := feedctl(t, "", "inspect", "zones", "--store", "file:"+t.TempDir())
	if code != exit.NotFound || stdout != "" {
		t.Errorf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// TestServeWithoutCertificate: a server that fails to start must not report that it is ready.
func TestServeWithoutCertificate(t *testing.T) {
	dir := t.TempDir()
	garbage, ready := filepath.Join(dir, "garbage.pem"), filepath.Join(dir, "ready")
	if err := os.WriteFile(garbage, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]int{filepath.Join(dir, "none.pem"): exit.NotFound, garbage: exit.Error} {
		code, stdout, stderr := feedctl(t, "", "serve", "--store", "file:"+dir+"/store", "--listen", "127.0.0.1:0",
			"--tls-cert", file, "--tls-key", file, "--ready-file", ready)
		if code != want || stdout != "" || !strings.Contains(stderr, filepath.Base(file)) {
			t.Errorf("%s: exit status %d, stdout %q, stderr %q", filepath.Base(file), code, stdout, stderr)
		}
		if _, err := os.Stat(ready); err == nil {
			t.Errorf("%s: --ready-file was written", filepath.Base(file))
		}
	}
}

func TestErrorsAsJSON(t *testing.T) {
	code, _, stderr := feedctl(t, "", "publish", "..", "--json")
	want := `"exitStatus":2`
	if code != exit.Usage || !strings.HasPrefix(stderr, `{"error":"`) || !strings.Contains(stderr, want) {
		t.Errorf("exit status %d, stderr %q", code, stderr)
	}
}

func TestVersion(t *testing.T) {
	code, stdout, _ := feedctl(t, "", "version")
	if code != exit.OK || !strings.HasPrefix(stdout, "feedctl ") {
		t.Errorf("exit status %d, %q", code, stdout)
	}
	if code, stdout, _ := feedctl(t, "", "version", "--json"); code != exit.OK || !strings.HasPrefix(stdout, `{"version":`) {
		t.Errorf("exit status %d, %q", code, stdout)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, stdout, stderr := feedctl(t, "", "completion", shell); code != exit.OK || len(stdout) < 1000 {
			t.Errorf("%s: exit status %d, %d bytes, %s", shell, code, len(stdout), stderr)
		}
	}
}

func TestGenDocs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cli")
	if code, _, stderr := feedctl(t, "", "gen-docs", dir); code != exit.OK {
		t.Fatalf("exit status %d: %s", code, stderr)
	}
	data, err := os.ReadFile(filepath.Join(dir, "feedctl-snapshot-from-feed.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# feedctl snapshot from-feed\n", "\nExit status:\n```\n    0  success\n", "## Examples\n\n```sh\nfeedctl ",
		"## Global flags", "- [feedctl snapshot](feedctl-snapshot.md): ",
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %q in:\n%s", want, data)
		}
	}
	// Every link in the documentation names a file.
	files, _ := filepath.Glob(filepath.Join(dir, "*.md"))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, rest := range strings.Split(string(text), "](")[1:] {
			target, _, _ := strings.Cut(rest, ")")
			if _, err := os.Stat(filepath.Join(dir, target)); err != nil {
				t.Errorf("%s: %v", filepath.Base(file), err)
			}
		}
	}
}

// TestFailingOutput: with a full disk, commands that print must fail.
func TestFailingOutput(t *testing.T) {
	full := errors.New("no space left")
	for _, line := range []string{"--help", "publish --help", "help publish", "version", "completion bash", "snapshot --help"} {
		var stderr bytes.Buffer
		code := run(t.Context(), strings.Fields(line), app.Streams{In: strings.NewReader(""), Out: brokenWriter{full}, Err: &stderr})
		if code != exit.Error || !strings.Contains(stderr.String(), full.Error()) {
			t.Errorf("%s: exit status %d: %s", line, code, &stderr)
		}
	}
}

// A brokenWriter writes nothing.
type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// TestUnknownVariable: a variable that sets no flag is logged, with the variable that was probably
// meant.
func TestUnknownVariable(t *testing.T) {
	t.Setenv("FEEDCTL_STOER", "file:x")
	t.Setenv("FEEDCTL_READ_CREDENTIALS", "bearer x")
	t.Setenv("FEEDCTL_TEST_S3", "x")
	_, _, stderr := feedctl(t, "", "version")
	if strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "variable=FEEDCTL_STOER did_you_mean=FEEDCTL_STORE") {
		t.Errorf("it says %q", stderr)
	}
}

func TestVersionFlag(t *testing.T) {
	want := mustRun(t, "", "version")
	if got := mustRun(t, "", "--version"); got != want {
		t.Errorf("--version prints %q, version %q", got, want)
	}
}
