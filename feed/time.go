package feed

import (
	"fmt"
	"net/http"
	"time"
)

// Truncate rounds t down to a whole second, in UTC.
func Truncate(t time.Time) time.Time {
	return t.UTC().Add(-time.Duration(t.Nanosecond()))
}

// Milliseconds rounds t down to a whole millisecond, in UTC.
func Milliseconds(t time.Time) time.Time {
	return t.UTC().Add(-time.Duration(t.Nanosecond() % int(time.Millisecond)))
}

// FormatTime formats t as an HTTP date in the preferred form (RFC 9110, section
// 5.6.7, IMF-fixdate), rounded down to the second. The year must have four digits.
func FormatTime(t time.Time) string { return t.UTC().Format(http.TimeFormat) }

// ParseTime parses an HTTP date (RFC 9110, section 5.6.7) in any of its forms:
// IMF-fixdate, RFC 850 and asctime. A one-digit day of the month is accepted in
// all of them. Two-digit years stand for the years 1969 to 2068. The result is in UTC. The error is
// a [*HeaderError] that names Last-Modified.
func ParseTime(s string) (time.Time, error) {
	if t, ok := parseFixdate(s); ok {
		return t, nil
	}
	if t, ok := parseOtherDate(s); ok {
		return t, nil
	}
	return time.Time{}, &HeaderError{Part: -1, Name: lastModified, Value: s, Err: errDate()}
}

func errDate() error {
	return fmt.Errorf("%w: not an HTTP date such as %q", ErrInvalidHeader, "Mon, 27 Nov 2023 03:10:00 GMT")
}

// parseOtherDate parses the forms that parseFixdate does not.
func parseOtherDate(s string) (time.Time, bool) {
	for _, form := range [...]string{
		"Mon, _2 Jan 2006 15:04:05 GMT",
		"Monday, _2-Jan-06 15:04:05 GMT",
		time.ANSIC,
	} {
		if t, err := time.Parse(form, trim(s)); err == nil && t.Year() > 0 {
			return Truncate(t), true
		}
	}
	return time.Time{}, false
}

// parseFixdate parses an IMF-fixdate, the form of nearly all dates, without
// allocating.
func parseFixdate[T string | []byte](s T) (time.Time, bool) {
	const form = "Mon, 02 Jan 2006 15:04:05 GMT"
	if len(s) != len(form) || !isWeekday(s[:3]) {
		return time.Time{}, false
	}
	for _, i := range [...]int{3, 4, 7, 11, 16, 19, 22, 25, 26, 27, 28} {
		if s[i] != form[i] {
			return time.Time{}, false
		}
	}
	day, ok1 := number(s[5:7])
	month, ok2 := monthOf(s[8:11])
	year, ok3 := number(s[12:16])
	hour, ok4 := number(s[17:19])
	minute, ok5 := number(s[20:22])
	second, ok6 := number(s[23:25])
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) || year == 0 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	t := time.Date(year, month, day, hour, minute, second, 0, time.UTC)
	return t, t.Day() == day // Date normalizes a day that the month does not have
}

func isWeekday[T string | []byte](s T) bool { return indexName(s, "MonTueWedThuFriSatSun") >= 0 }

func monthOf[T string | []byte](s T) (time.Month, bool) {
	i := indexName(s, "JanFebMarAprMayJunJulAugSepOctNovDec")
	return time.January + time.Month(i), i >= 0
}

// indexName returns the index of s in names, a list of names of three letters without separators,
// or -1.
func indexName[T string | []byte](s T, names string) int {
	for i := 0; i < len(names); i += 3 {
		if s[0] == names[i] && s[1] == names[i+1] && s[2] == names[i+2] {
			return i / 3
		}
	}
	return -1
}

// number parses decimal digits. The caller limits their number so that n does not overflow.
func number[T string | []byte](digits T) (n int, ok bool) {
	for i := range len(digits) {
		d := digits[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = 10*n + int(d)
	}
	return n, true
}
