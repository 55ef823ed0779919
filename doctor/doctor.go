// Package doctor finds out what is wrong with a store, or with the way to a feed on
// a server: it tries out what producers and consumers rely on, and says what it
// found, why that matters and how to mend it.
//
// Each check is about one thing, and is quiet about faults that others find.
package doctor

import (
	"net/http"
	"time"
)

// A Level says how bad a finding is.
type Level string

const (
	// OK: as it should be.
	OK Level = "ok"
	// Skipped: it could not be tried out, or does not apply.
	Skipped Level = "skipped"
	// Warning: everything works, but more slowly, at a higher price, or only for now.
	Warning Level = "warning"
	// Problem: data may be missed or refused, or something does not work.
	Problem Level = "problem"
)

// A Finding is the result of one check.
type Finding struct {
	Check string `json:"check"` // its name, which stays
	Level Level  `json:"level"`
	Found string `json:"found"`
	Why   string `json:"why,omitempty"` // it matters; only of a Warning or a Problem
	Fix   string `json:"fix,omitempty"` // what to do; likewise
}

// Problems returns how many findings are of level Problem.
func Problems(findings []Finding) int {
	n := 0
	for _, f := range findings {
		if f.Level == Problem {
			n++
		}
	}
	return n
}

// MaxClockSkew is how far clocks may be apart: what a producer tolerates by default.
const MaxClockSkew = time.Minute

// Config says how to reach a server. The zero Config is fit for use.
type Config struct {
	// Transport makes the requests; nil for one with the defaults of net/http.
	Transport http.RoundTripper
	// Authorization, and Header, go with every request to the origin of the URL
	// that is checked, and to no other. "": none.
	Authorization string
	Header        http.Header
	// AllowOrigins are further origins ("https://pages.example.com") that redirects
	// and links may lead to. They get neither Authorization nor Header.
	AllowOrigins []string
	// Wait is how long the server is asked to hold a request, in whole seconds.
	// 0: 30 s, as long as consumers ask for.
	Wait time.Duration
	// Timeout is how long a request may take besides Wait. 0: 30 s.
	Timeout time.Duration
}

// maxPage is how much of a page is read to check it, in bytes.
const maxPage = 64 << 20

// A result is a finding without what is the same for all results of a check.
type result struct {
	level      Level
	found, fix string
}

func fine(found string) result         { return result{OK, found, ""} }
func skipped(found string) result      { return result{Skipped, found, ""} }
func warning(found, fix string) result { return result{Warning, found, fix} }
func problem(found, fix string) result { return result{Problem, found, fix} }

// finding completes a result.
func finding(check, why string, r result) Finding {
	f := Finding{Check: check, Level: r.level, Found: r.found}
	if r.level == Warning || r.level == Problem {
		f.Why, f.Fix = why, r.fix
	}
	return f
}

// apart says how far a clock is from ours. Servers tell whole seconds only.
func apart(skew time.Duration) string {
	switch {
	case skew.Abs() <= time.Second:
		return "right"
	case skew > 0:
		return skew.String() + " ahead"
	}
	return skew.Abs().String() + " behind"
}
