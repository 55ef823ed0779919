package credential

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/consumer"
)

func TestReadCredentials(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []consumer.Credentials
		err        string
	}{
		{"both kinds", "# readers\nbasic ann:s:cret \n\nBearer tok\n", []consumer.Credentials{{Username: "ann", Password: "s:cret"}, {Bearer: "tok"}}, ""},
		{"Windows line ends", "bearer tok\r\n", []consumer.Credentials{{Bearer: "tok"}}, ""},
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
			got, err := (Source{File: file, Variable: "FEEDCTL_CREDENTIALS"}).ReadAll()
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), file) {
					t.Fatalf("error %v, want one with %q", err, test.err)
				}
				if strings.Contains(err.Error(), "hunter") {
					t.Errorf("error shows the secret: %v", err)
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
	got, err := (Source{Variable: "FEEDCTL_CREDENTIALS"}).Read()
	if err != nil || got != (consumer.Credentials{Bearer: "tok"}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, empty := range []string{"", " \n", "# bearer tok\n"} {
		t.Setenv("FEEDCTL_CREDENTIALS", empty)
		if got, err := (Source{Variable: "FEEDCTL_CREDENTIALS"}).Read(); !errors.Is(err, ErrEmpty) {
			t.Errorf("variable %q: got %v, %v", empty, got, err)
		}
		if _, err := (Source{Variable: "FEEDCTL_CREDENTIALS"}).ReadCouch(); !errors.Is(err, ErrEmpty) {
			t.Errorf("variable %q for CouchDB: %v", empty, err)
		}
	}
	os.Unsetenv("FEEDCTL_CREDENTIALS") // t.Setenv restores it
	if got, err := (Source{Variable: "FEEDCTL_CREDENTIALS"}).Read(); err != nil || got != (consumer.Credentials{}) {
		t.Errorf("no variable: got %v, %v", got, err)
	}
	t.Setenv("FEEDCTL_CREDENTIALS", "bearer a\nbearer b")
	if _, err := (Source{Variable: "FEEDCTL_CREDENTIALS"}).Read(); err == nil {
		t.Error("two credentials for a client are accepted")
	}
}

func TestCouchAuth(t *testing.T) {
	t.Setenv("TEST_CREDENTIALS", "# the source\nsession ann:a b:c\n")
	if a, err := (Source{Variable: "TEST_CREDENTIALS"}).ReadCouch(); err != nil || a.Username != "ann" || a.Password != "a b:c" || !a.Session {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := parseCouch("basic ann:secret"); err != nil || a.Username != "ann" || a.Session {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := parseCouch("proxy ann secret a,b"); err != nil || a.Proxy.Username != "ann" || a.Proxy.Secret != "secret" || len(a.Proxy.Roles) != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := parseCouch("proxy ann -"); err != nil || a.Proxy.Secret != "" || a.Proxy.Roles != nil {
		t.Errorf("%+v, %v", a, err)
	}
	for _, line := range []string{"basic hunter2", "session hunter2", "session :hunter2", "bearer", "proxy hunter2", "proxy a b c hunter2", "oauth hunter2"} {
		if a, err := parseCouch(line); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %+v, %v", line, a, err)
		}
	}
	// TestRenewedToken: the token in a file may be renewed.
	file := filepath.Join(t.TempDir(), "token")
	for _, token := range []string{"one", "two"} {
		if err := os.WriteFile(file, []byte("bearer "+token), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := (Source{File: file}).ReadCouch()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("bearer "+token+"-renewed"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := a.Token(t.Context()); got != token+"-renewed" || err != nil {
			t.Errorf("token is %q, %v", got, err)
		}
	}
}

func TestReadPassword(t *testing.T) {
	for _, test := range []struct{ text, want, err string }{
		{"s:cret", "s:cret", ""},
		{"# s cret \n", "# s cret ", ""},
		{"s\r\n", "s", ""},
		{"", "", "is empty"},
		{"\n", "", "is empty"},
		{"hunter1\nhunter2\n", "", "want one line"},
	} {
		file := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Source{File: file}.ReadPassword()
		if got != test.want || (err == nil) != (test.err == "") || err != nil && (!strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "hunter")) {
			t.Errorf("%q: %q, %v", test.text, got, err)
		}
	}
}
