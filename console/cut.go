package console

import "strings"

// cut returns at most the first most bytes of a text, in whole characters, with a mark if there is more.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
