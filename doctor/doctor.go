// Package doctor diagnoses a store, or the connection to a feed on a server: it tests
// what producers and consumers rely on, and reports what it found, why that matters and
// how to fix it.
//
// Each check tests one thing and does not report faults that other checks find.
package doctor

import (
	"net/http"
	"time"
)

// A Level is the severity of a finding.
type Level string

const (
	// OK means that the check passed.
	OK Level = "ok"
	// Skipped means that the check could not be made, or does not apply.
	Skipped Level = "skipped"
	// Warning means that everything works, but slowly, at a higher cost, or only for now.
	Warning Level = "warning"
	// Problem means that data may be missed or refused, or that something does not work.
	Problem Level = "problem"
)

// A Finding is the result of one check.
type Finding struct {
	Check string `json:"check"` // its name, which will not change
	Level Level  `json:"level"`
	Found string `json:"found"`
	Why   string `json:"why,omitempty"` // why it matters; only for a Warning or a Problem
	Fix   string `json:"fix,omitempty"` // what to do; only for a Warning or a Problem
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

// maxClockSkew is the maximum difference between clocks that a producer tolerates by default.
const maxClockSkew = time.Minute

// Config configures requests to a server. The zero Config is ready to use.
type Config struct {
	// Transport makes the requests; nil means one with the defaults of net/http.
	Transport http.RoundTripper
	// Authorization (if not "") and Header go with every request to the origin of
	// the URL that is checked, and to no other.
	Authorization string
	Header        http.Header
	// AllowOrigins are further origins ("https://pages.example.com") that redirects
	// and links may lead to. They get neither Authorization nor Header.
	AllowOrigins []string
	// Wait is how long the server is asked to hold a request, in whole seconds. 0
	// means 30 s, as consumers request.
	Wait time.Duration
	// Timeout limits a request, in addition to Wait. 0 means 30 s.
	Timeout time.Duration
}

// maxPage limits how much of a page is read to check it, in bytes.
const maxPage = 64 << 20

// A result is a finding without the fields that are the same for all results of a check.
type result struct {
	level      Level
	found, fix string
}

func fine(found string) result         { return result{OK, found, ""} }
func skipped(found string) result      { return result{Skipped, found, ""} }
func warning(found, fix string) result { return result{Warning, found, fix} }
func problem(found, fix string) result { return result{Problem, found, fix} }

func finding(check, why string, r result) Finding {
	f := Finding{Check: check, Level: r.level, Found: r.found}
	if r.level == Warning || r.level == Problem {
		f.Why, f.Fix = why, r.fix
	}
	return f
}

// apart describes how far a clock is from ours. Servers report whole seconds only.
func apart(skew time.Duration) string {
	switch {
	case skew.Abs() <= time.Second:
		return "right"
	case skew > 0:
		return skew.String() + " ahead"
	}
	return skew.Abs().String() + " behind"
}
