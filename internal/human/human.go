// Package human formats values for a human reader.
package human

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// WriteTable writes rows in aligned columns under a header.
func WriteTable(w io.Writer, header []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// Count writes 1234567 as "1,234,567".
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Bytes writes a size in binary units: "1.5 MiB".
func Bytes(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len("KMGTPE")-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTPE"[unit])
}

// Time writes a time in UTC, and "-" for the zero time.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// Duration writes a duration with a precision that is useful to a reader.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return trimZero(d.Truncate(time.Second).String())
	case d < 48*time.Hour:
		return trimZero(d.Truncate(time.Minute).String())
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// trimZero turns "5m0s" into "5m".
func trimZero(d string) string {
	if strings.HasSuffix(d, "m0s") {
		return strings.TrimSuffix(d, "0s")
	}
	return d
}

// Plural returns the count and the noun: "1 entity", "2 entities".
func Plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + many
}

// Printable returns text in a form for one column of a line. Characters that are not printable
// become "\ufffd", line breaks and tabs become spaces, and empty text becomes "-".
func Printable(text string) string {
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

// Preview returns up to limit bytes from the beginning of a text, in a form for one column of a
// line.
func Preview(text []byte, limit int) string {
	more := ""
	if len(text) > limit {
		text, more = text[:limit], "..."
		for len(text) > 0 && !utf8.Valid(text) && !utf8.RuneStart(text[len(text)-1]) {
			text = text[:len(text)-1]
		}
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return "(binary)"
	}
	return Printable(string(text)) + more
}
