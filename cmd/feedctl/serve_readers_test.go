package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
)

// TestServeReaders: the console and the metrics of a server have the name and the position that consume
// announces, unless consume is told not to announce them.
func TestServeReaders(t *testing.T) {
	dir := t.TempDir()
	store := "file:" + dir + "/store"
	if code, _, stderr := feedctl(t, `{"id":"a"}`, "publish", store+"#zones", "--key", "/id"); code != exit.OK {
		t.Fatal(stderr)
	}
	ctx, stop := context.WithCancel(t.Context())
	out, lines := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		defer lines.Close()
		ended <- run(ctx, []string{"serve", "--store", store, "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0", "--json"},
			app.Streams{In: strings.NewReader(""), Out: lines, Err: io.Discard})
	}()
	var urls serveJSON
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &urls)
	}
	if err != nil {
		t.Fatalf("serve prints %q: %v", line, err)
	}
	get := func(url string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, %v", url, response.StatusCode, err)
		}
		return string(body)
	}
	feed := urls.URL + "/feeds/zones"
	for _, args := range [][]string{
		{"--into", "sqlite:" + filepath.Join(dir, "secret.db") + "?table=places"},
		{"--into", "jsonl:" + filepath.Join(dir, "lines.jsonl"), "--announce", "none"},
		{"--into", "jsonl:" + filepath.Join(dir, "more.jsonl"), "--announce", "web shop"},
	} {
		if code, _, stderr := feedctl(t, "", append([]string{"consume", feed}, args...)...); code != exit.OK {
			t.Fatal(stderr)
		}
	}
	body := get(urls.Console + "/readers")
	for _, want := range []string{">sqlite:places</a>", ">web shop</a>", "3 readers", `<a href="page?feed=zones&amp;n=1">page 1</a>`, ">sent<"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page of readers does not have %s", want)
		}
	}
	for _, secret := range []string{"secret", "lines", dir} {
		if strings.Contains(body, secret) {
			t.Errorf("the page of readers has %s", secret)
		}
	}
	metrics := get(urls.URL + "/metrics")
	if want := `feedctl_reader_position_timestamp_seconds{feed="zones",reader="sqlite:places",user=""} `; !strings.Contains(metrics, want) {
		t.Errorf("the metrics do not have %s", want)
	}
	stop()
	if code := <-ended; code != exit.OK {
		t.Errorf("serve ends with status %d", code)
	}
	if code, _, stderr := feedctl(t, "", "consume", feed, "--into", "-", "--announce", "a\nb"); code != exit.Usage || !strings.Contains(stderr, "--announce") {
		t.Errorf("a name with a line break: status %d, %s", code, stderr)
	}
}
