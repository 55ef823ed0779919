package console

import (
	"strings"
	"testing"
)

func TestEscaper(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\n":            "plain\ttext\n",
		"Zürich 👩‍🚀 日本":            "Zürich 👩‍🚀 日本",
		"\x1b[2J\r\x7f":            `\u001b[2J\u000d\u007f`,
		"\u009b\u202e\u2066\u2028": `\u009b\u202e\u2066\u2028`,
		"\U000e0041":               `\udb40\udc41`,
		"\x9b1m\xff":               `\u009b1m\u00ff`,
	} {
		var whole, bytewise strings.Builder
		if n, err := Escape(&whole).Write([]byte(text)); err != nil || n != len(text) {
			t.Errorf("%q: wrote %d, %v", text, n, err)
		}
		e := Escape(&bytewise)
		for i := range len(text) {
			if _, err := e.Write([]byte{text[i]}); err != nil {
				t.Fatal(err)
			}
		}
		if whole.String() != want || bytewise.String() != want {
			t.Errorf("%q is escaped as %q, and byte by byte as %q; want %q", text, &whole, &bytewise, want)
		}
	}
}
