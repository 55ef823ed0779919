package e2e

import (
	"bufio"
	"context"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/pgtest"
)

// transcriptTime limits the time until a command of a transcript has printed the expected
// output.
const transcriptTime = time.Minute

// TestReadme runs the transcripts of the README unchanged, except for the port.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(pgtest.StartOwn(t).URL("readme"))
	if err != nil {
		t.Fatal(err)
	}
	for name, begins := range map[string]string{"files": "$ make build", "tables": "$ createdb", "jobs": "$ feedctl publish zones"} {
		t.Run(name, func(t *testing.T) {
			tr := &transcript{t: t, dir: t.TempDir(), address: freeAddress(t), env: append(os.Environ(),
				"PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"),
				"PGHOST="+server.Query().Get("host"), "PGUSER="+server.User.Username())}
			data, err := filepath.Abs("../data")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(data, filepath.Join(tr.dir, "data")); err != nil {
				t.Fatal(err)
			}
			_, file, _ := strings.Cut(string(text), "```yaml\n")
			file, _, _ = strings.Cut(file, "```\n")
			if err := os.WriteFile(filepath.Join(tr.dir, "jobs.yaml"), []byte(tr.local(file)), 0o600); err != nil {
				t.Fatal(err)
			}
			_, block, found := strings.Cut(string(text), "```\n"+begins)
			block, _, ended := strings.Cut(begins+block, "```\n")
			if !found || !ended {
				t.Fatalf("no transcript begins with %q", begins)
			}
			tr.run(strings.ReplaceAll(block, "\\\n", " "))
		})
	}
}

// A transcript is a sequence of commands, each after "$ ", with their output.
type transcript struct {
	t       *testing.T
	dir     string
	address string // in place of 127.0.0.1:8080; dir is in place of /tmp
	env     []string
}

// varying matches output that differs in each run.
var varying = regexp.MustCompile(`\d{8}T\d{6}\.\d{3}Z-[a-z0-9]+`)

// times matches times in the output of "jobs list", which has - for unknown times.
var times = regexp.MustCompile(`\b(\d+[hms])+\b`)

// queries matches commands that only read, and are repeated until they print what is expected.
var queries = regexp.MustCompile(`TABLE products'|^sqlite3 /tmp|^feedctl jobs list`)

func (tr *transcript) run(block string) {
	tr.t.Helper()
	for step := range strings.SplitSeq("\n"+block, "\n$ ") {
		command, want, _ := strings.Cut(strings.TrimSpace(step), "\n")
		switch {
		case command == "" || strings.HasPrefix(command, "make build"):
		case strings.HasSuffix(command, "&"):
			tr.start(command, want)
		default:
			tr.check(command, want)
		}
	}
}

// local replaces the address and the directory in the README with those of the test.
func (tr *transcript) local(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "127.0.0.1:8080", tr.address), "/tmp/", tr.dir+"/")
}

func (tr *transcript) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", tr.local(line))
	cmd.Dir, cmd.Env = tr.dir, tr.env
	return cmd
}

func (tr *transcript) normal(output string) string {
	output = strings.ReplaceAll(output, tr.address, "127.0.0.1:8080")
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(varying.ReplaceAllString(output, "ID"))) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "default/") || strings.HasPrefix(line, "NAME ") {
			line = strings.Join(strings.Fields(times.ReplaceAllString(line, "-")), " ")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// check runs a command until it prints the expected output, since processes in the
// background may need time.
func (tr *transcript) check(command, want string) {
	tr.t.Helper()
	ctx, cancel := context.WithTimeout(tr.t.Context(), transcriptTime)
	defer cancel()
	for {
		output, err := tr.command(ctx, command).CombinedOutput()
		got := tr.normal(string(output))
		if err == nil && (want == "" || got == tr.normal(tr.local(want))) {
			return
		}
		if !queries.MatchString(command) || ctx.Err() != nil {
			tr.t.Fatalf("%s\nprints (%v)\n%s\nnot\n%s", command, err, got, want)
		}
	}
}

// start runs a command in the background until the test ends, and waits until it has
// printed the expected output.
func (tr *transcript) start(command, want string) {
	tr.t.Helper()
	ctx, cancel := context.WithTimeout(tr.t.Context(), transcriptTime)
	cmd := tr.command(context.WithoutCancel(ctx), "exec "+strings.TrimSuffix(command, "&"))
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		tr.t.Fatal(err)
	}
	printed := make(chan string)
	go func() {
		defer close(printed)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			select {
			case printed <- tr.normal(lines.Text()):
			case <-ctx.Done():
			}
		}
	}()
	tr.t.Cleanup(func() {
		cancel()
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		_ = cmd.Wait()                       // its exit status does not matter
		_ = w.Close()                        // never fails
	})
	for want = tr.normal(want); want != ""; {
		select {
		case line, ok := <-printed:
			if !ok {
				tr.t.Fatalf("%s ended without %s", command, want)
			}
			if line == want {
				want = ""
			}
		case <-ctx.Done():
			tr.t.Fatalf("%s did not print %s", command, want)
		}
	}
	go func() { // it may print more
		for range printed {
		}
	}()
}
