// Package e2e tests the feedctl binary: with the scripts in testdata, one for each command,
// and by killing processes.
package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/feedctl/feedctl/internal/s3test"
)

// binary is the path of the tested feedctl.
var binary string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "feedctl-e2e-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary = filepath.Join(dir, "feedctl")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "github.com/feedctl/feedctl/cmd/feedctl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as in a release; with -race, it reuses what "make test" has compiled
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return 0, fmt.Errorf("build feedctl: %w", err)
	}
	return m.Run(), nil
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, scripts("testdata", nil))
}

// TestScriptsS3 runs the scripts for an S3 server. Each has its own store there, $STORE,
// which is also the default of the commands.
func TestScriptsS3(t *testing.T) {
	t.Parallel()
	server := s3test.Start(t)
	testscript.Run(t, scripts("testdata/s3", func(env *testscript.Env) {
		for _, variable := range os.Environ() {
			if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
				env.Setenv(name, value)
			}
		}
		store := server.URL(filepath.Base(env.WorkDir))
		env.Setenv("STORE", store)
		env.Setenv("FEEDCTL_STORE", store)
	}))
}

// scripts returns the parameters for running the scripts in a directory.
func scripts(dir string, setup func(*testscript.Env)) testscript.Params {
	return testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, ".config"))
			if setup != nil {
				setup(env)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"waitfile": waitFile,
			"readenv":  readEnv,
			"web":      web,
			"lines":    lines,
			"generate": generate,
		},
	}
}

// exits STATUS COMMAND ARGS... runs a command that must end with STATUS.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// waitLimit limits the wait for a condition. Its purpose is to end hanging tests, not to measure
// speed.
const waitLimit = 5 * time.Minute

// waitFile FILE [TEXT] waits until the file exists and contains the text.
func waitFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: waitfile FILE [TEXT]")
	}
	text := ""
	if len(args) == 2 {
		text = args[1]
	}
	for deadline := time.Now().Add(waitLimit); ; time.Sleep(5 * time.Millisecond) {
		data, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && strings.Contains(string(data), text) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not contain %q after %v: %q, %v", args[0], text, waitLimit, data, err)
		}
	}
}

// readEnv VARIABLE FILE sets a variable to the contents of a file.
func readEnv(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: readenv VARIABLE FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// lines N FILE checks that a file has N lines.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines N FILE")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := strings.Count(ts.ReadFile(args[1]), "\n"); got != want {
		ts.Fatalf("%s has %d lines, want %d", args[1], got, want)
	}
}

// generate FILE N writes a file of N lines of JSON with the members id, event
// and n.
func generate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: generate FILE N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"id":"thing-%d","event":"event-%d","n":%d}`+"\n", i%1000, i, i)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()), 0o644))
}

// web VARIABLE starts a server of resources that are not feeds, and sets a variable to its
// URL.
func web(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: web VARIABLE")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/html", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
		w.Header().Set("Link", `</html>; rel="self"`)
		fmt.Fprint(w, "<html><body>Welcome</body></html>")
	})
	mux.HandleFunc("/truncated", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", `multipart/mixed; boundary="b"`)
		w.Header().Set("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
		w.Header().Set("Link", `</truncated>; rel="self"`)
		for i := range 3 {
			fmt.Fprintf(w, "--b\r\nLast-Modified: Fri, 02 Jan 2026 03:04:05 GMT\r\nContent-Type: text/plain\r\n"+
				"Content-ID: <%d@test>\r\nOperation-Type: http-equiv=PUT\r\nContent-Location: %d\r\n\r\nbody\r\n", i, i)
		}
	})
	mux.HandleFunc("/backwards", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", `multipart/mixed; boundary="b"`)
		w.Header().Set("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
		w.Header().Set("Link", `</backwards>; rel="self"`)
		for i := range 3 {
			fmt.Fprintf(w, "--b\r\nLast-Modified: Fri, 02 Jan 2026 03:04:0%d GMT\r\nContent-Type: text/plain\r\n"+
				"Content-ID: <%d@test>\r\nOperation-Type: http-equiv=PUT\r\nContent-Location: %d\r\n\r\nbody\r\n", 5-i, i, i)
		}
		fmt.Fprint(w, "--b--\r\n")
	})
	mux.HandleFunc("/locked", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
	})
	s := httptest.NewServer(mux)
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL)
}
