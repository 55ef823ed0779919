package shell_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/shell"
)

// TestLine has a shell print words that contain its special characters.
func TestLine(t *testing.T) {
	t.Parallel()
	words := []string{"a", "", "it's", `"$(echo x)"`, "a b\tc\nd", "`x`", "*", "~", "-n", "ä", "a;b&c|d>e", `\`}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", shell.Line(append([]string{"printf", "%s\\0"}, words...)...)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSuffix(string(out), "\x00"); got != strings.Join(words, "\x00") {
		t.Errorf("a shell reads the words\n%q, want\n%q", got, strings.Join(words, "\x00"))
	}
}

// TestQuote: zsh replaces =NAME with the path of a command.
func TestQuote(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{"=ls": "'=ls'", "--keep-age=30d": "--keep-age=30d"} {
		if got := shell.Quote(word); got != want {
			t.Errorf("%s is quoted as %s, want %s", word, got, want)
		}
	}
}
