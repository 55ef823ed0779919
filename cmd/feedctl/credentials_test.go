package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadCredentials(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []credential
		err        string
	}{
		{"both kinds", "# readers\nbasic ann:s:cret \n\nBearer tok\n", []credential{{username: "ann", password: "s:cret"}, {bearer: "tok"}}, ""},
		{"Windows line ends", "bearer tok\r\n", []credential{{bearer: "tok"}}, ""},
		{"no scheme", "ann:hunter2", nil, "line 1: want basic USER:PASSWORD or bearer TOKEN"},
		{"no user", "\nbasic :hunter2", nil, "line 2: want basic USER:PASSWORD"},
		{"two tokens", "bearer hunter2 hunter3", nil, "line 1: want bearer TOKEN"},
		{"nothing", "# none\n", nil, "is empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "credentials")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := readCredentials(file, "FEEDCTL_CREDENTIALS")
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), file) {
					t.Fatalf("error %v, want one with %q", err, test.err)
				}
				if strings.Contains(err.Error(), "hunter") {
					t.Errorf("error tells the secret: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(test.want) {
				t.Fatalf("got %v, want %v", got, test.want)
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Errorf("got %v, want %v", got[i], test.want[i])
				}
			}
		})
	}
}

func TestReadCredentialFromEnvironment(t *testing.T) {
	t.Setenv("FEEDCTL_CREDENTIALS", "bearer tok")
	got, err := readCredential("")
	if err != nil || got != (credential{bearer: "tok"}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, empty := range []string{"", " \n", "# bearer tok\n"} {
		t.Setenv("FEEDCTL_CREDENTIALS", empty)
		if got, err := readCredential(""); err == nil || exitCode(&runError{err}) != exitUsage {
			t.Errorf("variable %q: got %v, %v", empty, got, err)
		}
		if _, err := readCouchAuth("", "FEEDCTL_CREDENTIALS"); err == nil || exitCode(&runError{err}) != exitUsage {
			t.Errorf("variable %q for CouchDB: %v", empty, err)
		}
	}
	os.Unsetenv("FEEDCTL_CREDENTIALS") // t.Setenv restores it
	if got, err := readCredential(""); err != nil || got != (credential{}) {
		t.Errorf("no variable: got %v, %v", got, err)
	}
	t.Setenv("FEEDCTL_CREDENTIALS", "bearer a\nbearer b")
	if _, err := readCredential(""); err == nil {
		t.Error("two credentials for a client are accepted")
	}
}
