package feed_test

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
)

func TestParseTime(t *testing.T) {
	want := time.Date(2023, 10, 5, 3, 0, 13, 0, time.UTC)
	for name, text := range map[string]string{
		"IMF-fixdate":           "Thu, 05 Oct 2023 03:00:13 GMT",
		"one digit, as in spec": "Thu, 5 Oct 2023 03:00:13 GMT",
		"one digit, padded":     "Thu,  5 Oct 2023 03:00:13 GMT",
		"RFC 850":               "Thursday, 05-Oct-23 03:00:13 GMT",
		"asctime":               "Thu Oct  5 03:00:13 2023",
		"asctime, two digits":   "Thu Oct 05 03:00:13 2023",
		"white space around":    " Thu, 05 Oct 2023 03:00:13 GMT\t",
		"wrong weekday":         "Mon, 05 Oct 2023 03:00:13 GMT",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := feed.ParseTime(text)
			if err != nil || !got.Equal(want) || got.Location() != time.UTC {
				t.Errorf("ParseTime(%q) = %v, %v; want %v", text, got, err, want)
			}
		})
	}
}

func TestParseTimeErrors(t *testing.T) {
	for _, text := range []string{
		"",
		"2023-10-05T03:00:13Z",
		"Thu, 05 Oct 2023 03:00:13",
		"Thu, 05 Oct 2023 03:00:13 +0000",
		"Thu, 05 Oct 2023 03:00:13 CET",
		"Thu, 31 Sep 2023 03:00:13 GMT",
		"Wed, 29 Feb 2023 03:00:13 GMT",
		"Thu, 00 Oct 2023 03:00:13 GMT",
		"Thu, 05 Okt 2023 03:00:13 GMT",
		"Xyz, 05 Oct 2023 03:00:13 GMT",
		"Thu, 05 Oct 2023 24:00:00 GMT",
		"Thu, 05 Oct 2023 03:60:13 GMT",
		"Thu, 05 Oct 2023 03:00:60 GMT",
		"Thu, 05 Oct 0000 03:00:13 GMT",
		"Thu, 05 Oct 2023 03:00:1x GMT",
		"1696474813",
	} {
		_, err := feed.ParseTime(text)
		var header *feed.HeaderError
		if !errors.Is(err, feed.ErrInvalidHeader) || !errors.As(err, &header) || header.Value != text {
			t.Errorf("ParseTime(%q): error %v, want a HeaderError that matches ErrInvalidHeader", text, err)
		}
	}
}

func TestRounding(t *testing.T) {
	at := func(s string) time.Time {
		t.Helper()
		v, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct{ in, second, milli, wire string }{
		{"2023-10-05T03:00:13.999999999Z", "2023-10-05T03:00:13Z", "2023-10-05T03:00:13.999Z", "Thu, 05 Oct 2023 03:00:13 GMT"},
		{"2023-10-05T03:00:13.5Z", "2023-10-05T03:00:13Z", "2023-10-05T03:00:13.5Z", "Thu, 05 Oct 2023 03:00:13 GMT"},
		{"2023-10-05T03:00:13Z", "2023-10-05T03:00:13Z", "2023-10-05T03:00:13Z", "Thu, 05 Oct 2023 03:00:13 GMT"},
		{"2023-10-05T03:00:13.0000001+02:00", "2023-10-05T01:00:13Z", "2023-10-05T01:00:13Z", "Thu, 05 Oct 2023 01:00:13 GMT"},
		// The zone is half an hour off, so that rounding in local time would be detected.
		{"2023-10-05T03:00:13.7+05:30", "2023-10-04T21:30:13Z", "2023-10-04T21:30:13.7Z", "Wed, 04 Oct 2023 21:30:13 GMT"},
		// Times before 1970, and before the zero time.Time, are also truncated towards earlier
		// times, not towards zero.
		{"1969-12-31T23:59:59.9995Z", "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.999Z", "Wed, 31 Dec 1969 23:59:59 GMT"},
		{"0000-12-31T23:59:59.5Z", "0000-12-31T23:59:59Z", "0000-12-31T23:59:59.5Z", "Sun, 31 Dec 0000 23:59:59 GMT"},
	} {
		in := at(c.in)
		if got := feed.Truncate(in); got != at(c.second).UTC() {
			t.Errorf("Truncate(%s) = %s, want %s", c.in, got, c.second)
		}
		if got := feed.Milliseconds(in); got != at(c.milli).UTC() {
			t.Errorf("Milliseconds(%s) = %s, want %s", c.in, got, c.milli)
		}
		if got := feed.FormatTime(in); got != c.wire {
			t.Errorf("FormatTime(%s) = %q, want %q", c.in, got, c.wire)
		}
	}
}

// TestRoundingPreservesOrder: rounding preserves order. Readers that start at a given time rely on
// this.
func TestRoundingPreservesOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		a := time.Unix(r.Int64N(8e9)-4e9, r.Int64N(1e9))
		b := a.Add(time.Duration(r.Int64N(3e9)))
		for name, round := range map[string]func(time.Time) time.Time{
			"Truncate": feed.Truncate, "Milliseconds": feed.Milliseconds, "wire": wire,
		} {
			if round(a).After(round(b)) {
				t.Fatalf("%s reverses the order of %v <= %v", name, a, b)
			}
			if round(a).After(a) || a.Sub(round(a)) >= time.Second {
				t.Fatalf("%s(%v) = %v is later, or earlier by a second or more", name, a, round(a))
			}
		}
		if feed.Truncate(feed.Milliseconds(a)) != feed.Truncate(a) || wire(a) != feed.Truncate(a) {
			t.Fatalf("%v: rounding to milliseconds or for the wire changes the second", a)
		}
	}
}

func wire(t time.Time) time.Time {
	read, err := feed.ParseTime(feed.FormatTime(t))
	if err != nil {
		panic(err)
	}
	return read
}

func TestNoMonotonicClock(t *testing.T) {
	now := time.Now()
	if feed.Truncate(now) != now.Round(0).UTC().Truncate(time.Second) {
		t.Error("Truncate keeps the monotonic clock: equal times are not ==")
	}
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{
		"Thu, 05 Oct 2023 03:00:13 GMT", "Thu, 5 Oct 2023 03:00:13 GMT",
		"Thursday, 05-Oct-23 03:00:13 GMT", "Thu Oct  5 03:00:13 2023", "Thu, 31 Sep 2023 03:00:13 GMT",
		"Thursday, 05-Oct-23 03:00:13 CET",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := feed.ParseTime(s)
		// net/http also accepts fractions, the year 0, and any abbreviation of a time zone. It
		// treats all zones as UTC.
		std, stdErr := http.ParseTime(s)
		zone, _ := std.Zone()
		if stdErr == nil && std.Year() > 0 && std.Nanosecond() == 0 && (zone == "GMT" || zone == "UTC") {
			if err != nil || !got.Equal(std) {
				t.Fatalf("ParseTime(%q) = %v, %v; net/http reads %v", s, got, err, std)
			}
		}
		if err != nil {
			return
		}
		if again := wire(got); again != got {
			t.Fatalf("ParseTime(%q) = %v, which is read back as %v", s, got, again)
		}
	})
}
