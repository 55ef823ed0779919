package console

import (
	"regexp"
	"strings"
)

// plainWord matches what means itself to a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// CommandLine returns a command line for a POSIX shell (POSIX, "Quoting"). Words with characters that
// cannot be printed are not meant to be copied.
func commandLine(words ...string) string {
	quoted := make([]string, len(words))
	for n, word := range words {
		if quoted[n] = word; !plainWord.MatchString(word) {
			quoted[n] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// cut returns at most the first most bytes of a text, in whole characters, with a mark if there is more.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
