package console

import "strings"

// cut shortens a text to at most the given number of bytes, in whole characters, and appends "…" if there was more.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
