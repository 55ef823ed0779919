package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
)

// TestServeConsole: the console has its own address, and requires the credentials of the server.
func TestServeConsole(t *testing.T) {
	dir := t.TempDir()
	store, readers, writers := "file:"+dir+"/store", filepath.Join(dir, "readers"), filepath.Join(dir, "writers")
	for file, line := range map[string]string{readers: "bearer r\n", writers: "bearer w\n"} {
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, stderr := feedctl(t, `{"id":"a"}`, "publish", store+"#zones", "--key", "/id"); code != exit.OK {
		t.Fatal(stderr)
	}
	ctx, stop := context.WithCancel(t.Context())
	out, lines := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		defer lines.Close()
		ended <- run(ctx, []string{
			"serve", "--store", store, "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0", "--json",
			"--read-credentials-file", readers, "--write-credentials-file", writers,
		}, app.Streams{In: strings.NewReader(""), Out: lines, Err: io.Discard})
	}()
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var urls serveJSON
	if err == nil {
		err = json.Unmarshal(line, &urls)
	}
	if err != nil || urls.Console == "" || urls.Console == urls.URL {
		t.Fatalf("serve prints %q: %v", line, err)
	}
	for _, test := range []struct {
		url, token string
		status     int
		has        string
	}{
		{urls.Console + "/", "", http.StatusUnauthorized, "credentials"},
		{urls.Console + "/feeds", "r", http.StatusOK, `href="feed?name=zones"`},
		{urls.Console + "/feed?name=zones", "r", http.StatusOK, "Newest entities"},
		{urls.Console + "/feed?name=zones", "w", http.StatusOK, `href="verify?`},
		{urls.URL + "/feed?name=zones", "r", http.StatusNotFound, ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+test.token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != test.status || !strings.Contains(string(body), test.has) {
			t.Errorf("%s with %q: status %d, want %d with %q: %v\n%s", test.url, test.token, answer.StatusCode, test.status, test.has, err, body)
		}
	}
	stop()
	if code := <-ended; code != exit.OK {
		t.Errorf("exit status %d", code)
	}
}

// TestServeConsoleWrong: a console that everyone could reach is refused, as is an invalid address.
func TestServeConsoleWrong(t *testing.T) {
	store := "file:" + t.TempDir() + "/store"
	for address, want := range map[string]string{
		":9090":             "the console would be open to everyone",
		"0.0.0.0:9090":      "the console would be open to everyone",
		"console.test:9090": "the console would be open to everyone",
		"9090":              `--console "9090" is not HOST:PORT`,
		"127.0.0.1:http-x":  "is not HOST:PORT",
	} {
		code, stdout, stderr := feedctl(t, "", "serve", "--store", store, "--listen", "127.0.0.1:0", "--console", address)
		if code != exit.Usage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("--console %s: exit status %d, stdout %q, stderr %q, want %q", address, code, stdout, stderr, want)
		}
	}
}
