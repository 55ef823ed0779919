package console

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/feedctl/feedctl/internal/console"
)

// A room is the number of bytes of HTML that still fit into a page. Data from feeds is shown as text, and a text of
// quotation marks becomes five times as long in HTML.
type room int

// show returns as much of a text as fits, in whole characters, and whether that is the whole text. Characters that
// control or reorder text are escaped as in JSON; see [console.Escape].
func (r *room) show(text []byte) (string, bool) {
	n := 0
	for n < len(text) {
		if len(text)-n < utf8.UTFMax && !utf8.FullRune(text[n:]) {
			break // the text was cut within this character
		}
		c, size := utf8.DecodeRune(text[n:])
		takes := markup(c, size)
		if takes > int(*r) {
			break
		}
		*r -= room(takes)
		n += size
	}
	var b strings.Builder
	_, _ = console.Escape(&b).Write(text[:n]) // never fails
	return b.String(), n == len(text)
}

// brief returns the beginning of a text for a list, with a mark if there is more.
func brief(text string) string {
	left := room(maxText)
	start, all := left.show([]byte(text))
	if !all {
		start += "…"
	}
	return start
}

// markup returns the maximum number of bytes that a character takes in HTML.
func markup(c rune, size int) int {
	switch {
	case strings.ContainsRune(`"'&<>+`, c):
		return len("&#34;")
	case c == '\n' || c == '\t':
		return 1
	case c == utf8.RuneError || !unicode.IsPrint(c):
		return len(`\u0000\u0000`)
	}
	return size
}
