package e2e

import (
	"bufio"
	"context"
	"go/format"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/pgtest"
)

// maxLibraryLines limits the total length of the three programs of docs/library.md.
const maxLibraryLines = 150

// TestLibrary builds the programs of docs/library.md and runs them together: an entity that
// the first one publishes must arrive in a table through the other two.
func TestLibrary(t *testing.T) {
	t.Parallel()
	programs := libraryPrograms(t)
	store := filepath.Join(t.TempDir(), "store")
	publisher := startProgram(t, programs[0], "127.0.0.1:0", store)
	feeds := startProgram(t, programs[1], "127.0.0.1:0", store)
	database := pgtest.Start(t).URL("library")
	db, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	if _, err := db.Exec(t.Context(), "CREATE TABLE prices (article text PRIMARY KEY, details jsonb)"); err != nil {
		t.Fatal(err)
	}
	for _, price := range []string{"4.5", "4.75"} {
		put(t, publisher+"/prices/tea", `{"price": `+price+`}`)
		if out, err := exec.CommandContext(t.Context(), programs[2], feeds+"/data/feeds/prices", database).CombinedOutput(); err != nil {
			t.Fatalf("consume: %v: %s", err, out)
		}
		var got string
		if err := db.QueryRow(t.Context(), "SELECT details->>'price' FROM prices WHERE article = 'tea'").Scan(&got); err != nil || got != price {
			t.Fatalf("the table has price %q (%v), want %s", got, err, price)
		}
	}
}

// libraryPrograms builds the programs of docs/library.md, and returns their paths in order.
func libraryPrograms(t *testing.T) (paths []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	if len(found) != 3 {
		t.Fatalf("%d programs, want 3", len(found))
	}
	lines := 0
	for i, program := range found {
		source := []byte(program[1])
		if formatted, err := format.Source(source); err != nil || string(formatted) != program[1] {
			t.Errorf("program %d is not gofmt'd (%v)", i+1, err)
		}
		lines += strings.Count(program[1], "\n")
		dir := t.TempDir()
		path, file := filepath.Join(dir, "program"), filepath.Join(dir, "main.go")
		if err := os.WriteFile(file, source, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", path, file).CombinedOutput(); err != nil {
			t.Fatalf("build program %d: %v: %s", i+1, err, out)
		}
		paths = append(paths, path)
	}
	if lines > maxLibraryLines {
		t.Errorf("the programs have %d lines, want %d at most", lines, maxLibraryLines)
	}
	return paths
}

// startProgram runs a server until the test ends, and returns the URL that it prints.
func startProgram(t *testing.T, path string, args ...string) (url string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // it was killed
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func put(t *testing.T, url, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("PUT %s: %s: %s (%v)", url, resp.Status, answer, err)
	}
}
