package feed

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ConsumerHeader is the request header field in which a consumer tells the server of a feed its name
// and the position that it has committed. It is not part of the specification, and does not change how
// servers respond.
const ConsumerHeader = "Feedctl-Consumer"

// Limits of an [Announcement], in bytes. Longer values are neither sent nor accepted.
const (
	MaxConsumerName      = 64
	maxAnnouncedPosition = 256 // limits the Content-ID and the path of the page
	maxAnnouncement      = 1024
)

// An Announcement is the content of a [ConsumerHeader] field. All fields but Name may be zero.
type Announcement struct {
	// Name is the name of the consumer: 1 to [MaxConsumerName] printable ASCII characters.
	Name string
	// LastModified and ContentID are the time, in whole seconds, and the Content-ID of the last entity that
	// was committed. Page is the URL path of the page with that entity. A Content-ID or path that is longer
	// than 256 bytes, or is not printable ASCII, is left out.
	LastModified time.Time
	ContentID    string
	Page         string
	// InSnapshot means that the consumer is reading a snapshot, of which SnapshotPages pages are
	// committed.
	InSnapshot    bool
	SnapshotPages int
	// Filling means that the consumer reads the feed newest first, and that older entities are still
	// missing.
	Filling bool
}

// Announce returns the announcement of a consumer that has committed a position.
func Announce(name string, p Position) Announcement {
	a := Announcement{Name: name, LastModified: p.LastModified, ContentID: p.ContentID, Filling: p.Tail != nil}
	if p.Snapshot != nil {
		a.InSnapshot, a.SnapshotPages = true, p.Snapshot.Page
	}
	if u, err := url.Parse(p.Page); err == nil {
		a.Page = u.EscapedPath() // without the query, which may hold a signature
	}
	return a
}

// CleanConsumerName turns text into a valid name, or "": it replaces characters that are not printable
// ASCII with "_", and cuts off what is too long.
func CleanConsumerName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '_'
		}
		return r
	}, strings.TrimSpace(text))
	return strings.TrimSpace(name[:min(len(name), MaxConsumerName)])
}

// Header returns the value of [ConsumerHeader], a dictionary (RFC 9651, section 3.2), or "" if the
// name is not valid.
func (a Announcement) Header() string {
	if !validName(a.Name) {
		return ""
	}
	b := append([]byte("name="), quote(a.Name)...)
	if !a.LastModified.IsZero() {
		b = fmt.Appendf(b, ", at=@%d", a.LastModified.Unix())
	}
	for _, m := range [...]struct{ key, value string }{{"id", a.ContentID}, {"page", a.Page}} {
		if m.value != "" && len(m.value) <= maxAnnouncedPosition && printable(m.value) {
			b = fmt.Appendf(b, ", %s=%s", m.key, quote(m.value))
		}
	}
	if a.InSnapshot {
		b = fmt.Appendf(b, ", snapshot=%d", a.SnapshotPages)
	}
	if a.Filling {
		b = append(b, ", filling"...) // the Boolean value true
	}
	return string(b)
}

var (
	errNotString = errors.New("is not a string of printable ASCII within its limit")
	errNotDate   = errors.New("is not a date")
	errNotCount  = errors.New("is not a number of pages")
	errTooLong   = errors.New("is too long")
)

// ParseAnnouncement parses [ConsumerHeader]. Unknown members are ignored. If the field is missing, the
// Announcement is zero; if it is malformed, or has no valid name, the error is a [*HeaderError].
func ParseAnnouncement(h http.Header) (Announcement, error) {
	var a Announcement
	value := strings.Join(h.Values(ConsumerHeader), ",")
	if value == "" {
		return a, nil
	}
	invalid := func(key string, err error) (Announcement, error) {
		shown := value[:min(len(value), maxAnnouncement)]
		return Announcement{}, &HeaderError{Part: -1, Name: ConsumerHeader, Value: shown, Err: fmt.Errorf("%w: %q %w", ErrInvalidHeader, key, err)}
	}
	if len(value) > maxAnnouncement {
		return invalid("", errTooLong)
	}
	for _, member := range splitMembers(value) {
		key, item, _ := strings.Cut(strings.Trim(member, " \t"), "=")
		var err error
		switch key {
		case "name":
			a.Name, err = unquote(item, MaxConsumerName)
		case "at":
			a.LastModified, err = parseUnix(item)
		case "id":
			a.ContentID, err = unquote(item, maxAnnouncedPosition)
		case "page":
			a.Page, err = unquote(item, maxAnnouncedPosition)
		case "snapshot":
			a.InSnapshot = true
			if a.SnapshotPages, err = strconv.Atoi(item); err != nil || a.SnapshotPages < 0 {
				err = errNotCount
			}
		case "filling":
			a.Filling = item != "?0"
		}
		if err != nil {
			return invalid(key, err)
		}
	}
	if !validName(a.Name) {
		return invalid("name", errNotString)
	}
	return a, nil
}

func validName(name string) bool {
	return name != "" && len(name) <= MaxConsumerName && printable(name) && strings.TrimSpace(name) == name
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// quote returns a string of printable ASCII in the form that RFC 9651 defines in section 3.3.3.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// unquote parses a string of at most limit bytes as defined in section 3.3.3. Parameters are an error,
// since no member has any.
func unquote(item string, limit int) (string, error) {
	quoted, opened := strings.CutPrefix(item, `"`)
	quoted, closed := strings.CutSuffix(quoted, `"`)
	if !opened || !closed || !printable(quoted) {
		return "", errNotString
	}
	var b strings.Builder
	for i := 0; i < len(quoted); i++ {
		switch quoted[i] {
		case '"':
			return "", errNotString
		case '\\':
			if i++; i == len(quoted) || quoted[i] != '"' && quoted[i] != '\\' {
				return "", errNotString
			}
		}
		b.WriteByte(quoted[i])
	}
	if b.Len() > limit {
		return "", errTooLong
	}
	return b.String(), nil
}

// maxDate is the last second of the year 9999 (RFC 9651, section 3.3.7).
const maxDate = 253_402_300_799

// parseUnix parses a date as defined in RFC 9651, section 3.3.7. It must not be before 1970.
func parseUnix(item string) (time.Time, error) {
	digits, ok := strings.CutPrefix(item, "@")
	seconds, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || seconds < 0 || seconds > maxDate {
		return time.Time{}, errNotDate
	}
	return time.Unix(seconds, 0).UTC(), nil
}
