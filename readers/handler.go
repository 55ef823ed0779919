package readers

import (
	"crypto/sha256"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/recorded"
	"github.com/feedctl/feedctl/layout"
)

// Handler returns a handler that passes requests to next, and records their readers in t. The paths of
// requests must be those of package layout. Responses are the same as those of next.
func (t *Tracker) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok := t.visit(r)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		answer := &recorded.Response{ResponseWriter: w}
		waiting := t.begin(v)
		cutOff := true
		defer func() {
			left := cutOff || r.Context().Err() != nil && !whole(answer) // a reader may disconnect as soon as it has the whole response
			t.end(v, waiting, left, answer)
		}()
		next.ServeHTTP(answer, r)
		cutOff = false // next has not panicked
	})
}

// A visit is the tracker's view of a request.
type visit struct {
	key            key
	agent, network string
	asked          Asked
	position       Position // the position that the reader announces; Announced is false if it announces none
	waits          bool     // whether the request may wait for the feed to change
	head           bool
	credentials    [sha256.Size]byte // a digest of the credentials, if they are checked
}

// maxText is the maximum length, in bytes, of a text that is kept from a request.
const maxText = 120

// visit returns the information about the reader in a request. It returns false if the request is not for
// a feed or snapshot.
func (t *Tracker) visit(r *http.Request) (visit, bool) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return visit{}, false
	}
	resource, ok := layout.ParsePath(r.URL.Path)
	if !ok {
		return visit{}, false
	}
	v := visit{
		key:   key{feed: resource.Name},
		agent: clean(r.UserAgent()), network: network(r.RemoteAddr), head: r.Method == http.MethodHead,
		asked: Asked{Kind: resource.Kind, Page: resource.Page, Conditional: r.Header.Get("If-None-Match") != ""},
	}
	v.waits = v.asked.Conditional && strings.Contains(strings.ToLower(r.Header.Get("Prefer")), "wait=")
	if t.config.Users {
		v.key.user, v.credentials = user(r), sha256.Sum256([]byte(r.Header.Get("Authorization")))
	}
	a, err := feed.ParseAnnouncement(r.Header)
	if err != nil || a.Name == "" {
		v.key.agent, v.key.network = v.agent, v.network
		return v, true
	}
	v.key.name = a.Name
	if a.InSnapshot || !a.LastModified.IsZero() {
		v.position = Position{
			Announced: true, Time: a.LastModified, ContentID: a.ContentID,
			InSnapshot: a.InSnapshot, SnapshotPages: int64(a.SnapshotPages), Filling: a.Filling,
		}
	}
	if of, n, err := layout.ParseFeedPageURL(a.Page); err == nil && of == v.key.feed {
		v.position.Page = n
	}
	return v, true
}

// user returns the user name in the credentials of a request, or a name for other credentials.
func user(r *http.Request) string {
	if name, _, ok := r.BasicAuth(); ok {
		return clean(name)
	}
	if r.Header.Get("Authorization") != "" {
		return "bearer"
	}
	return ""
}

// clean returns text from a request, with "?" for all characters other than printable ASCII, cut to
// maxText.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), maxText)])
	return strings.TrimSpace(text)
}

// network returns the network to which a remote address belongs.
func network(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return ""
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.IsLoopback() {
		return "this machine"
	}
	bits := 48
	if ip.Is4() {
		bits = 24
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return ""
	}
	return prefix.String()
}

// begin records that a known reader begins to wait, and returns the reader's entry, or nil if nothing was
// recorded. The credentials have not been checked yet, so they must be the same as in an earlier request
// that was answered.
func (t *Tracker) begin(v visit) *entry {
	if !v.waits {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byKey[v.key]
	if e == nil || e.credentials != v.credentials {
		return nil
	}
	e.Waiting++
	e.Seen, e.Asked = t.config.Now(), v.asked
	if v.position.Announced {
		e.Position = v.position
	}
	return e
}

// end records the answer to a request, unless the reader disconnected or the response was cut off.
func (t *Tracker) end(v visit, waiting *entry, left bool, answer *recorded.Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if waiting != nil {
		waiting.Waiting-- // done even if the reader has been forgotten in the meantime
	}
	if left {
		return
	}
	status := answer.Status()
	failed := status >= http.StatusBadRequest
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusMisdirectedRequest:
		return // without valid credentials, anyone may claim to be a reader
	case failed && status != http.StatusGone && t.byKey[v.key] == nil:
		return // requests for feeds that never existed must not displace known readers
	}
	now, e := t.config.Now(), t.seen(v.key)
	e.Seen, e.Asked, e.Agent, e.Network, e.credentials = now, v.asked, v.agent, v.network, v.credentials
	e.Requests++
	if failed {
		e.Failures++
		e.Failed = Failure{Status: status, Asked: v.asked, At: now}
	}
	if v.position.Announced {
		e.Position = v.position
	} else if e.Position.Announced {
		e.Position = Position{} // the reader has started over
	}
	if !failed {
		t.learn(e, v, answer.Header(), now)
	}
}

// learn records the information that a response contains about the feed and, if the reader does not
// announce a position, about the reader's position. The caller must hold mu.
func (t *Tracker) learn(e *entry, v visit, h http.Header, now time.Time) {
	if v.asked.Kind == "snapshot page" && !v.position.Announced {
		e.Position = Position{InSnapshot: true, SnapshotPages: v.asked.Page + 1}
		return
	}
	if v.asked.Kind != "feed" && v.asked.Kind != "page" {
		return
	}
	n := v.asked.Page
	if v.asked.Kind == "feed" {
		_, n, _ = layout.ParseFeedPageURL(h.Get("Content-Location")) // 0 if the page is not known
	}
	modified, err := feed.ParseTime(h.Get("Last-Modified"))
	if err != nil || n == 0 {
		return
	}
	next := slices.ContainsFunc(h.Values("Link"), func(link string) bool { return strings.Contains(link, `rel="next"`) })
	if f := t.feeds[v.key.feed]; !next && (n >= f.head.page || now.Sub(f.head.checked) > askEvery) {
		f.saw(head{page: n, time: modified, checked: now})
	}
	if !v.head && !v.position.Announced {
		e.Position = Position{Page: n, Time: modified}
	}
}

// whole reports whether a response was successful and, if its length is known, was sent to its end.
func whole(w *recorded.Response) bool {
	length, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
	return w.Status() < http.StatusBadRequest && (err != nil || w.Bytes == length)
}

// String returns a readable description of the request.
func (a Asked) String() string {
	text := ""
	switch a.Kind {
	case "":
		return ""
	case "feed":
		text = "newest page"
	case "page":
		text = "page " + strconv.FormatInt(a.Page, 10)
	case "snapshot page":
		text = "snapshot page " + strconv.FormatInt(a.Page, 10)
	default:
		text = a.Kind
	}
	if a.Conditional {
		text += ", if it has changed"
	}
	return text
}
