package main

import (
	"strings"
	"unicode"
)

// printable returns text that cannot move a terminal's cursor or change its
// colours: characters that are not for print become "\ufffd", breaks and tabs
// become spaces. An empty text becomes "-".
func printable(text string) string {
	if text == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
