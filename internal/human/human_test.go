package human

import (
	"strings"
	"testing"
	"time"
)

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 1234567: "1,234,567", 100000: "100,000", -1234: "-1,234",
	} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 5 << 40: "5.0 TiB", 1<<63 - 1: "8.0 EiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                  "0s",
		0:                             "0s",
		1500 * time.Millisecond:       "1s",
		time.Minute:                   "1m",
		90 * time.Second:              "1m30s",
		2 * time.Hour:                 "2h0m",
		47*time.Hour + 59*time.Minute: "47h59m",
		72 * time.Hour:                "3d",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestWriteTable(t *testing.T) {
	var b strings.Builder
	if err := WriteTable(&b, []string{"PAGE", "N"}, [][]string{{"1", "10"}, {"12345", "2"}}); err != nil {
		t.Fatal(err)
	}
	want := "PAGE   N\n1      10\n12345  2\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                "-",
		"Zürich":          "Zürich",
		"a\tb\r\nc":       "a b  c",
		"\x1b[31mred\x07": "\ufffd[31mred\ufffd",
		"bad\xffutf":      "bad\ufffdutf",
		"left\u202eright": "left\ufffdright",
	} {
		if got := Printable(text); got != want {
			t.Errorf("Printable(%q) = %q, want %q", text, got, want)
		}
	}
}
