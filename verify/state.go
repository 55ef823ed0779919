package verify

import (
	"encoding/hex"
	"fmt"
	"time"
)

// A State holds what a check has seen, for [Config.Since] of the next check. It marshals to JSON.
type State struct {
	URL   string      `json:"url"`
	Pages []PageState `json:"pages"` // the pages that could be read, oldest first
}

// A PageState holds what a check has seen of a page.
type PageState struct {
	URL          string    `json:"url"`
	LastModified time.Time `json:"lastModified,omitzero"`
	Entities     int       `json:"entities"`
	Digest       Sum       `json:"digest"` // of the boundary, and of the headers and bodies of the entities
	Size         int64     `json:"size"`   // of the page, in bytes
	SHA256       Sum       `json:"sha256"` // of the page
	// Final means that the page must never change again: it had a next link or
	// belongs to a snapshot. Otherwise entities may be appended.
	Final bool `json:"final"`
}

// A Sum is a SHA-256, which is written in hex in JSON.
type Sum [32]byte

// MarshalText implements [encoding.TextMarshaler].
func (s Sum) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Sum) UnmarshalText(text []byte) error {
	sum, err := hex.DecodeString(string(text))
	if err != nil || len(sum) != len(s) {
		return fmt.Errorf("read SHA-256 %.100q: not %d hex digits", text, 2*len(s))
	}
	copy(s[:], sum)
	return nil
}

// change describes how a page has changed, or returns "" if the change is allowed. The prefix is
// the Digest of the first was.Entities entities of the page as it is now.
func change(was, now PageState, prefix Sum) string {
	switch {
	case was.Final && (was.Size != now.Size || was.SHA256 != now.SHA256):
		return fmt.Sprintf("it had %d bytes with SHA-256 %x on an earlier visit and must not change, but has %d bytes with %x",
			was.Size, was.SHA256, now.Size, now.SHA256)
	case !was.Final && now.Entities < was.Entities:
		return fmt.Sprintf("it had %d entities on an earlier visit, but has %d", was.Entities, now.Entities)
	case !was.Final && prefix != was.Digest:
		return fmt.Sprintf("its first %d entities have changed since an earlier visit", was.Entities)
	}
	return ""
}

// compareOrder reports pages of the earlier visit that are gone or have moved. Pages
// may vanish only at the beginning of a feed.
func (v *visit) compareOrder(since *State) {
	if since == nil {
		return
	}
	urls := make(map[string]bool)
	for _, p := range since.Pages {
		urls[p.URL] = true
	}
	numbers := v.pages.numbers(urls)
	kept := 0 // the pages of the earlier visit from this index on must still exist
	for kept < len(since.Pages) && numbers[since.Pages[kept].URL] == 0 {
		kept++
	}
	if kept == len(since.Pages) {
		v.compareReplaced(since)
		return
	}
	before := 0
	for _, was := range since.Pages[kept:] {
		switch n := numbers[was.URL]; {
		case n == 0:
			v.report.add(Changed, was.URL, "it existed on an earlier visit and has been removed, but an older page still exists")
		case n < before:
			v.report.add(Changed, was.URL, "it was after page %s on an earlier visit, but is before it now", v.pages.at(before-1).url)
		default:
			before = n
		}
	}
}

// compareReplaced reports a feed that has no page in common with the earlier visit,
// unless that can be due to pruning.
func (v *visit) compareReplaced(since *State) {
	if len(since.Pages) == 0 || v.report.First.IsZero() {
		return
	}
	if last := since.Pages[len(since.Pages)-1].LastModified; v.report.First.Before(last) {
		v.report.add(Changed, v.report.URL, "none of the %d pages of an earlier visit exists, but the oldest entity is from %v, before %v: it is another feed",
			len(since.Pages), v.report.First, last)
	}
}
