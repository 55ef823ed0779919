package repair

import (
	"fmt"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/human"
)

// String describes the report in lines of text.
func (r *Report) String() string {
	if r.Error != "" {
		return r.Error + "\n"
	}
	var b strings.Builder
	for _, s := range r.Steps {
		b.WriteString(s.describe() + "\n")
	}
	for _, l := range r.Lost {
		b.WriteString(l.describe() + "\n")
	}
	switch {
	case len(r.Steps) == 0:
		fmt.Fprintf(&b, "%s: %s: nothing to repair\n", r.Feed, pageRange(r.Oldest, r.Newest))
	case r.Newest == 0:
		fmt.Fprintf(&b, "%s: no pages are left\n", r.Feed)
	case r.Applied:
		fmt.Fprintf(&b, "%s has %s\n", r.Feed, pageRange(r.Oldest, r.Newest))
	default:
		fmt.Fprintf(&b, "%s would have %s\n", r.Feed, pageRange(r.Oldest, r.Newest))
	}
	return b.String()
}

// pageRange returns "page 3" or "pages 3 to 5".
func pageRange(first, last int64) string {
	if first == last {
		return fmt.Sprintf("page %d", first)
	}
	return fmt.Sprintf("pages %d to %d", first, last)
}

func (s *Step) describe() string {
	switch {
	case s.Action == Restore && s.Proven:
		return fmt.Sprintf("restore page %d with %s, which the digest in the next page proves", s.Page, human.Plural(int64(s.Entities), "entity", "entities"))
	case s.Action == Restore:
		return fmt.Sprintf("restore page %d with %s", s.Page, human.Plural(int64(s.Entities), "entity", "entities"))
	case s.Action == RaiseFloor:
		return fmt.Sprintf("make page %d the oldest one", s.Page)
	case s.To == "":
		return fmt.Sprintf("remove the rest of page %d, which has no body", s.Page)
	}
	return fmt.Sprintf("move page %d to %s", s.Page, s.To)
}

func (l *Loss) describe() string {
	text := fmt.Sprintf("lost from page %d: ", l.Page)
	if l.Entities < 0 {
		text += "all entities"
	} else {
		text += human.Plural(int64(l.Entities), "entity", "entities")
	}
	if !l.First.IsZero() || !l.Last.IsZero() {
		text += fmt.Sprintf(" from %s to %s", formatBound(l.First), formatBound(l.Last))
	}
	switch {
	case l.FirstID != "":
		text += fmt.Sprintf(", Content-ID %s to %s", human.Printable(l.FirstID), human.Printable(l.LastID))
	case l.LastID != "":
		text += fmt.Sprintf(", Content-ID up to %s", human.Printable(l.LastID))
	}
	if l.Aside != "" {
		text += "; kept aside"
	}
	return text
}

func formatBound(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.UTC().Format(time.RFC3339)
}
