package installed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNeed runs scripts/need as on machines of several kinds, on which the commands it asks for are missing.
func TestNeed(t *testing.T) {
	const debian, root, user, sudo = "apt-get", "id 0", "id 1000", "sudo"
	line := "\n  apt-get install --no-install-recommends one deux\n"
	for _, test := range []struct {
		name    string
		machine []string
		wants   []string
		fails   bool
		prints  string
		calls   string // of apt-get
	}{
		{"nothing is missing", []string{user}, []string{"bash", "env=package"}, false, "", ""},
		{"no Debian", []string{root}, []string{"one", "bash", "two=deux"}, true, "  one                  Debian package one\n  two                  Debian package deux\nInstall these", ""},
		{"no root", []string{debian, user}, []string{"one", "two=deux", "three=deux"}, true, line, ""},
		{"root", []string{debian, root}, []string{"one", "two=deux", "three=deux"}, false, "installing one deux\n", "install -y -qq --no-install-recommends one deux"},
		{"sudo", []string{debian, user, sudo}, []string{"one"}, false, "installing one\n", "install -y -qq --no-install-recommends one"},
		{"not in Debian", []string{debian, root}, []string{"one", "two=https://example.org/two"}, true, "  two                  see https://example.org/two\n", ""},
		{"a Python module", []string{debian, user}, []string{"python3:one=python3-one"}, true, "install --no-install-recommends python3-one\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			log := filepath.Join(dir, "log")
			for _, command := range []string{"bash", "env", "tr"} {
				path, err := exec.LookPath(command)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(path, filepath.Join(dir, command)); err != nil {
					t.Fatal(err)
				}
			}
			for _, command := range test.machine {
				name, answer, _ := strings.Cut(command, " ")
				script := fmt.Sprintf("#!%s/bash\necho \"$@\" >>%s\n", dir, log)
				switch name {
				case "id":
					script = fmt.Sprintf("#!%s/bash\necho %s\n", dir, answer)
				case "sudo":
					script = fmt.Sprintf("#!%s/bash\n[ \"$1\" = -n ] && exit 0\nexec \"$@\"\n", dir)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(filepath.Join(dir, "bash"), append([]string{"../../scripts/need"}, test.wants...)...)
			cmd.Env = []string{"PATH=" + dir}
			out, err := cmd.CombinedOutput()
			if (err != nil) != test.fails || !strings.Contains(string(out), test.prints) {
				t.Errorf("%v, printed:\n%s", err, out)
			}
			calls, err := os.ReadFile(log)
			if got := strings.TrimSpace(string(calls)); got != test.calls || (err != nil) != (test.calls == "") {
				t.Errorf("called apt-get %q, want %q", got, test.calls)
			}
		})
	}
}

// TestTargetsNeedAllAtTheStart: before a target builds anything, it checks for all commands that it and the
// targets it calls need.
func TestTargetsNeedAllAtTheStart(t *testing.T) {
	targets := []string{"demo", "demo-s3", "demo-postgres", "demo-couchdb", "demo-backup", "demo-kinto", "demo-jobs", "test", "race", "bench"}
	called := regexp.MustCompile(`(?m)^scripts/need (.*)$`)
	for _, target := range targets {
		out, err := exec.Command("make", "-C", "../..", "--no-print-directory", "-n", "-B", target).Output()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(out), "scripts/need ") {
			t.Errorf("make %s begins with %q", target, strings.SplitN(string(out), "\n", 2)[0])
			continue
		}
		calls := called.FindAllStringSubmatch(string(out), -1)
		first := strings.Fields(calls[0][1])
		for _, call := range calls[1:] {
			for want := range strings.FieldsSeq(call[1]) {
				if !slices.Contains(first, want) {
					t.Errorf("make %s needs %s, but does not say so at the start", target, want)
				}
			}
		}
	}
}
