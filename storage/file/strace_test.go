//go:build unix

package file_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
)

// The tests in this file fail without the program strace: no other test shows the effects of a
// crash or a full disk.

const (
	tracedVariable    = "FEEDCTL_FILE_TRACED"
	tracedDirVariable = "FEEDCTL_FILE_TRACED_DIR"
)

// The key of the object that the traced process writes, and the object's bodies.
const (
	tracedKey = "a/key"
	oldBody   = "old body"
	tail      = ", new tail"
	newBody   = "a new body"
)

// operate performs one operation on the object.
func operate(ctx context.Context, s *file.Store, verb string) error {
	info, err := s.Stat(ctx, tracedKey)
	if err != nil && verb != "create" && verb != "send" {
		return err
	}
	switch verb {
	case "create":
		_, err = s.Create(ctx, tracedKey, storage.Meta{Data: []byte(verb)}, storage.Bytes([]byte(newBody)))
	case "append":
		_, err = s.Append(ctx, tracedKey, info.Version, storage.Meta{Data: []byte(verb)}, storage.Bytes([]byte(tail)))
	case "replace":
		_, err = s.Replace(ctx, tracedKey, info.Version, storage.Meta{Data: []byte(verb)}, storage.Bytes([]byte(newBody)))
	case "delete":
		err = s.Delete(ctx, tracedKey)
	case "send":
		err = send(ctx, s)
	case "long":
		err = appendLong(ctx, s)
	}
	return err
}

// class returns a name for the error of package storage that err matches.
func class(err error) string {
	for name, known := range map[string]error{
		"exists": storage.ErrExists, "conflict": storage.ErrConflict, "full": storage.ErrFull,
		"permission": storage.ErrPermission, "size": storage.ErrSize, "layout": storage.ErrLayout,
	} {
		if errors.Is(err, known) {
			return name
		}
	}
	if err != nil {
		return "unknown"
	}
	return "ok"
}

// prepare creates a store with the object in its old state, unless the operation is to
// create it.
func prepare(t *testing.T, verb string) (*file.Store, string) {
	t.Helper()
	s, dir := newStoreDir(t)
	if verb != "create" {
		_, err := s.Create(t.Context(), tracedKey, storage.Meta{Data: []byte("old")}, storage.Bytes([]byte(oldBody)))
		if err != nil {
			t.Fatal(err)
		}
	}
	return s, dir
}

// state returns the metadata and the body of the object, or "none".
func state(t *testing.T, s *file.Store) string {
	t.Helper()
	o, err := s.Get(t.Context(), tracedKey, 0, -1)
	if errors.Is(err, storage.ErrNotFound) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	body, err := io.ReadAll(o.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s: %s", o.Meta.Data, body)
}

// states holds the states of the object before and after each operation.
var states = map[string][2]string{
	"create":  {"none", "create: " + newBody},
	"append":  {"old: " + oldBody, "append: " + oldBody + tail},
	"replace": {"old: " + oldBody, "replace: " + newBody},
	"delete":  {"old: " + oldBody, "none"},
}

type trace struct {
	text   string // what strace wrote
	result string // the class of the error, as printed by the process; empty if it was killed
}

// traced performs one operation on the store in dir in a child process that runs under strace, with
// the given arguments.
func traced(t *testing.T, dir, verb string, args ...string) trace {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "trace")
	cmd := exec.Command("strace", slices.Concat([]string{"-f", "--seccomp-bpf", "-o", log}, args, []string{self})...)
	// The race detector would delay the exit of each process by a second.
	cmd.Env = append(os.Environ(), tracedVariable+"="+verb, tracedDirVariable+"="+dir, "GORACE=atexit_sleep_ms=0")
	output, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || len(exit.Stderr) > 0 && len(output) > 0) {
		t.Fatalf("run strace, which this test needs: %v", err)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatalf("run strace, which this test needs: %v", err)
	}
	return trace{text: string(text), result: string(output)}
}

func (tr trace) calls(name string) []string {
	return regexp.MustCompile(`(?m)^\d+ +`+name+`\(.*$`).FindAllString(tr.text, -1)
}

// TestStraceSequence compares the system calls of each write with the lists in the package
// documentation.
func TestStraceSequence(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"create", "append", "replace", "delete"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			title := strings.ToUpper(verb[:1]) + verb[1:]
			list := regexp.MustCompile(`(?m)^// ` + title + `\b.*:\n//\n((?://\t.*\n)+)`).FindSubmatch(doc)
			if list == nil {
				t.Fatalf("doc.go has no list for %s", title)
			}
			var want []string
			for line := range strings.Lines(string(list[1])) {
				call := regexp.MustCompile(`^//\t(\w+( (objects|tmp|locks)[^ \n]*)+)`).FindStringSubmatch(line)
				if call != nil {
					want = append(want, call[1])
				}
			}
			_, dir := prepare(t, verb)
			tr := traced(t, dir, verb, "-y", "-qq", "-e", "signal=none",
				"-e", "trace=mkdirat,openat,flock,pwrite64,write,fsync,fdatasync,linkat,renameat,unlinkat,ftruncate")
			if diff := cmp.Diff(sortSyncs(want), sortSyncs(changes(tr, dir))); tr.result != "ok" || diff != "" {
				t.Errorf("%s: %s (-doc +calls):\n%s", verb, tr.result, diff)
			}
		})
	}
}

// sortSyncs sorts consecutive calls of fsync and fdatasync, which may be concurrent.
func sortSyncs(calls []string) []string {
	isSync := func(call string) bool {
		return strings.HasPrefix(call, "fsync ") || strings.HasPrefix(call, "fdatasync ")
	}
	for i := range calls {
		for j := i; j > 0 && isSync(calls[j]) && isSync(calls[j-1]) && calls[j] < calls[j-1]; j-- {
			calls[j], calls[j-1] = calls[j-1], calls[j]
		}
	}
	return calls
}

// changes returns the successful calls that change something in the store, in the form of
// the documentation.
func changes(tr trace, dir string) (calls []string) {
	unfinished := make(map[string]string) // by thread
	path := regexp.MustCompile(regexp.QuoteMeta(dir) + `/([^">]*)`)
	for line := range strings.Lines(tr.text) {
		thread, line, _ := strings.Cut(strings.TrimSpace(line), " ")
		line = strings.TrimSpace(line)
		if before, ok := strings.CutSuffix(line, "<unfinished ...>"); ok {
			unfinished[thread] = before
			continue
		}
		if _, after, ok := strings.Cut(line, " resumed>"); ok {
			line = unfinished[thread] + after
		}
		name, args, _ := strings.Cut(line, "(")
		if name == "openat" && !strings.Contains(args, "O_EXCL") || strings.Contains(args, " = -1 ") {
			continue
		}
		// strace repeats the path of an opened file after "=".
		args = args[:max(0, strings.LastIndex(args, " = "))]
		call := name
		for _, match := range path.FindAllStringSubmatch(args, -1) {
			arg := regexp.MustCompile(`@[A-Z2-7]{26}`).ReplaceAllString(match[1], "@ID")
			call += " " + regexp.MustCompile(`^locks/..`).ReplaceAllString(arg, "locks/XX")
		}
		if call != name {
			calls = append(calls, call)
		}
	}
	return calls
}

// TestStraceFaults makes each system call of each write fail in turn. The last committed state must
// be intact, the error must be consistent with the state, and a write that is known to have failed
// must leave nothing behind.
func TestStraceFaults(t *testing.T) {
	faults := map[string][]string{
		"ENOSPC": {"pwrite64", "write", "fsync", "fdatasync", "linkat", "renameat", "mkdirat", "unlinkat"},
		"EIO":    {"pwrite64", "write", "fsync", "fdatasync", "linkat", "renameat", "unlinkat"},
		"EACCES": {"openat", "linkat", "renameat", "unlinkat"},
	}
	known := map[string]string{"ENOSPC": "full", "EIO": "unknown", "EACCES": "permission"}
	for verb, states := range states {
		for errno, calls := range faults {
			for _, call := range calls {
				t.Run(verb+"/"+errno+"/"+call, func(t *testing.T) {
					t.Parallel()
					for n := 1; ; n++ {
						s, dir := prepare(t, verb)
						before := files(t, dir)
						tr := traced(t, dir, verb, "-e", "trace="+call,
							"-e", fmt.Sprintf("inject=%s:error=%s:when=%d", call, errno, n))
						if !strings.Contains(tr.text, "(INJECTED)") {
							return
						}
						got := state(t, s)
						if got != states[0] && got != states[1] {
							t.Fatalf("call %d: state is %q, want one of %q", n, got, states)
						}
						switch tr.result {
						case "ok":
							if got != states[1] {
								t.Errorf("call %d: no error but state %q", n, got)
							}
						case "":
							if call != "write" { // if write fails, the process cannot print the result
								t.Errorf("call %d: the process failed", n)
							}
						case "unknown":
							if got == states[0] && errno != "EIO" {
								t.Errorf("call %d: nothing changed, but the error does not say so", n)
							}
						default:
							if got != states[0] || tr.result != known[errno] {
								t.Errorf("call %d: error is %q, state %q", n, tr.result, got)
							}
							if diff := cmp.Diff(before, files(t, dir)); diff != "" && call != "unlinkat" {
								t.Errorf("call %d: files were left behind or lost:\n%s", n, diff)
							}
						}
						checkUsable(t, s)
					}
				})
			}
		}
	}
}

// TestStraceKills kills the process at each system call of each write in turn.
func TestStraceKills(t *testing.T) {
	for verb, states := range states {
		for _, call := range []string{"pwrite64", "write", "fsync", "fdatasync", "linkat", "renameat", "unlinkat", "mkdirat"} {
			t.Run(verb+"/"+call, func(t *testing.T) {
				t.Parallel()
				for n := 1; ; n++ {
					s, dir := prepare(t, verb)
					tr := traced(t, dir, verb, "-e", "trace="+call,
						"-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n))
					got := state(t, s)
					if got != states[0] && got != states[1] {
						t.Fatalf("call %d: state is %q, want one of %q", n, got, states)
					}
					if tr.result != "" && got != states[1] {
						t.Errorf("call %d: acknowledged, but state is %q", n, got)
					}
					checkUsable(t, s)
					if tr.result != "" || !strings.Contains(tr.text, "killed by SIGKILL") {
						return
					}
				}
			})
		}
	}
}

// checkUsable performs every operation on the object, whatever its state.
func checkUsable(t *testing.T, s *file.Store) {
	t.Helper()
	if state(t, s) == "none" {
		if err := operate(t.Context(), s, "create"); err != nil {
			t.Fatal(err)
		}
	}
	was := state(t, s)
	if err := operate(t.Context(), s, "append"); err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(was, ": ")
	if got, want := state(t, s), "append: "+body+tail; got != want {
		t.Fatalf("append to %q: state is %q, want %q", was, got, want)
	}
	for _, verb := range []string{"replace", "delete"} {
		if err := operate(t.Context(), s, verb); err != nil {
			t.Fatal(err)
		}
		if got := state(t, s); got != states[verb][1] {
			t.Fatalf("after %s: state is %q, want %q", verb, got, states[verb][1])
		}
	}
}

// files returns the paths and sizes of the files of a store, without locks.
func files(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Name() == "locks" {
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err == nil && entry.Type().IsRegular() {
			path = fmt.Sprintf("%s (%d bytes)", path, info.Size())
		}
		paths = append(paths, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
