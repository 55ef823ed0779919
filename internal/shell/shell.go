// Package shell writes command lines for users to copy.
package shell

import (
	"regexp"
	"strings"
)

// plain matches words that have no special meaning to a shell. They do not begin with an equals sign, which has a
// special meaning to zsh.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*$`)

// Quote quotes a word for a shell (POSIX, "Single-Quotes").
func Quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Line returns a command line that consists of the words.
func Line(words ...string) string {
	quoted := make([]string, len(words))
	for n, word := range words {
		quoted[n] = Quote(word)
	}
	return strings.Join(quoted, " ")
}
