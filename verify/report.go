package verify

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Violation is one violation of a rule. It is an error.
type Violation struct { //nolint:errname // primarily an element of a report
	Rule    Rule   `json:"rule"`
	URL     string `json:"url"`
	Page    int    `json:"page"`   // among the pages checked, from 1 for the oldest; 0 for none
	Part    int    `json:"part"`   // from 0; -1 for none
	Offset  int64  `json:"offset"` // of the part or, with PageFormat, of the error, in bytes; -1 for none
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
}

func (v *Violation) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.Rule, v.URL)
	if v.Page > 0 {
		fmt.Fprintf(&b, ", page %d", v.Page)
	}
	if v.Part >= 0 {
		fmt.Fprintf(&b, ", part %d", v.Part)
	}
	if v.Offset >= 0 {
		fmt.Fprintf(&b, ", offset %d", v.Offset)
	}
	fmt.Fprintf(&b, ": %s (%s)", v.Message, v.Remedy)
	return b.String()
}

// A Report is the result of a check. The documentation of the package describes its form in JSON.
type Report struct {
	URL        string      `json:"url"`
	Kind       string      `json:"kind"`
	Pages      int         `json:"pages"`
	Entities   int64       `json:"entities"`
	Bytes      int64       `json:"bytes"`
	First      time.Time   `json:"first,omitzero"`
	Last       time.Time   `json:"last,omitzero"`
	Violations []Violation `json:"violations"`
	Omitted    int         `json:"omitted,omitempty"`

	// State holds what the check saw, for [Config.Since] of the next check; nil unless KeepState or
	// Since was set in the Config.
	State *State `json:"-"`

	max     int     // maximum number of violations to list
	renamed *string // replaces servedOrigin in URLs; set only for the check of a store
}

func newReport(kind, url string, c Config) *Report {
	return &Report{URL: url, Kind: kind, Violations: []Violation{}, max: cmp.Or(c.MaxViolations, defaultMaxViolations), renamed: c.renamed}
}

// Err returns all violations, joined into one error, each a [*Violation], or nil if there are none.
func (r *Report) Err() error {
	var all []error
	for i := range r.Violations {
		all = append(all, &r.Violations[i])
	}
	if r.Omitted > 0 {
		all = append(all, fmt.Errorf("and %d more violations", r.Omitted))
	}
	return errors.Join(all...)
}

// add records a violation that concerns a page or an index as a whole.
func (r *Report) add(rule Rule, url, format string, args ...any) {
	r.addPart(rule, url, -1, -1, format, args...)
}

// addPart records a violation that concerns a part.
func (r *Report) addPart(rule Rule, url string, part int, offset int64, format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = r.shown(text)
		}
	}
	r.addViolation(Violation{
		Rule: rule, URL: url, Part: part, Offset: offset, Message: fmt.Sprintf(format, args...), Remedy: rule.Remedy(),
	})
}

// shown returns a URL, or any other string, in the form for the report.
func (r *Report) shown(url string) string {
	if path, ok := strings.CutPrefix(url, servedOrigin); ok && r.renamed != nil {
		return *r.renamed + path
	}
	return url
}

func (r *Report) addViolation(v Violation) {
	if len(r.Violations) == r.max {
		r.Omitted++
		return
	}
	r.Violations = append(r.Violations, v)
}

// finish sets the page numbers of the violations and sorts the violations.
func (r *Report) finish(number func(url string) int) {
	for i := range r.Violations {
		r.Violations[i].Page = number(r.Violations[i].URL)
	}
	slices.SortStableFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Page, b.Page), cmp.Compare(a.Part, b.Part), cmp.Compare(a.Offset, b.Offset))
	})
}

// saw records the time of an entity, in the order of the feed.
func (r *Report) saw(t time.Time) {
	if r.First.IsZero() {
		r.First = t
	}
	r.Last = t
}
