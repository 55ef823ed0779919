package console

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/feedctl/feedctl/internal/shell"
	multipart "github.com/feedctl/feedctl/page"
)

// Limits for the page of an entity.
const (
	maxFields   = 16 << 10 // of the HTML of the header fields, in bytes
	maxWord     = 1 << 10  // of a key in a command line, in bytes
	maxVerified = 16 << 20 // of a page of a feed that is verified before an entity of it is shown, in bytes
)

// An entityView is the page of an entity.
type entityView struct {
	page
	entityRow
	Ref        entityRef
	Last       int // the number of the last entity of the page
	HasKey     bool
	Header     []headerField
	MoreFields int64 // header fields that are not shown
	Body       bodyView
	Forms      []bodyForm
	// Unverified means that the page was not read to its end, and may be damaged.
	Unverified bool
	// Previous and Next are the URLs of the entities before and after this one; "" if there is none.
	Previous, Next string
	// Curl and Publish are command lines that save the body, and publish it again. They are empty if the key
	// or the media type has characters that cannot be printed.
	Curl, Publish string
	// Extra means that the entity has header fields that Publish leaves out.
	Extra bool
}

// A headerField is a field of the header of an entity.
type headerField struct {
	Name, Value string
	Cut         bool // there is more
}

// A bodyForm is a link to a form of the body.
type bodyForm struct {
	Name, URL string
	Current   bool
}

// getEntity answers requests for "/entity".
func (c *Console) getEntity(r *http.Request) (content, error) {
	ref, err := parseRef(r)
	if err != nil {
		return nil, err
	}
	o, err := c.openPage(r.Context(), ref.Feed, ref.Page)
	if err != nil {
		return nil, err
	}
	defer o.close()
	part, err := o.part(ref.Index)
	if err != nil {
		return nil, err
	}
	v := &entityView{entityRow: o.row(part), Ref: ref, Last: o.page.Entities - 1, HasKey: keyOf(part.Header) != ""}
	v.Title = fmt.Sprintf("%s, page %d, entity %d", ref.Feed, ref.Page, ref.Index)
	v.setHeader(part.Header)
	start, size, err := beginning(part, v.Size)
	if err != nil {
		return nil, fmt.Errorf("read page %d of feed %q: %w", ref.Page, ref.Feed, err)
	}
	v.Size = size
	v.Body = viewBody(start, size, string(part.Header.Get("Content-Type")), r.URL.Query().Get("as"))
	for _, form := range []string{asJSON, asText, asHex} {
		v.Forms = append(v.Forms, bodyForm{form, ref.URL() + "&as=" + form, v.Body.As == form})
	}
	v.setCommands(c, r, part.Header)
	if v.Unverified = o.page.Size > maxVerified; !v.Unverified {
		if err := o.verify(); err != nil {
			return nil, err
		}
	}
	v.Previous, v.Next, err = o.neighbours(r, ref.Index)
	return v, err
}

// beginning returns the beginning of the body of a part, and the size of the whole body if that is known.
func beginning(part *multipart.Part, size int64) ([]byte, int64, error) {
	if part.Stream == nil {
		return part.Body, size, nil
	}
	start := make([]byte, maxBody)
	n, err := io.ReadFull(part.Stream, start)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return start[:n], int64(n), nil
	}
	return start[:n], size, err
}

// setHeader sets the header fields.
func (v *entityView) setHeader(h multipart.Header) {
	left := room(maxFields)
	for n, f := range h {
		var field headerField
		var whole bool
		if field.Name, whole = left.show(f.Name); !whole {
			v.MoreFields = int64(len(h) - n)
			return
		}
		field.Value, whole = left.show(f.Value)
		field.Cut = !whole
		v.Header = append(v.Header, field)
		switch strings.ToLower(field.Name) {
		case "last-modified", "content-type", "content-id", "operation-type", "content-location", "content-length":
		default:
			v.Extra = true
		}
	}
}

// neighbours returns the URLs of the entities before and after entity i.
func (o *opened) neighbours(r *http.Request, i int) (previous, next string, err error) {
	name, n := o.feed.Name(), o.page.Number
	switch {
	case i > 0:
		previous = entityRef{name, n, i - 1}.URL()
	case n > o.floor:
		p, err := o.feed.Stat(r.Context(), n-1)
		if err != nil {
			return "", "", err
		}
		previous = entityRef{name, n - 1, p.Entities - 1}.URL()
	}
	switch {
	case i < o.page.Entities-1:
		next = entityRef{name, n, i + 1}.URL()
	case n < o.newest.Number:
		next = entityRef{name, n + 1, 0}.URL()
	}
	return previous, next, nil
}

// setCommands sets the command lines.
func (v *entityView) setCommands(c *Console, r *http.Request, h multipart.Header) {
	id, key, mediaType := string(h.Get("Content-ID")), keyOf(h), string(h.Get("Content-Type"))
	if v.Problem != "" {
		return
	}
	if typeable(id) {
		tail := shell.Line("feedctl", "tail", v.Feed, "--store", c.config.StoreName, "--from", v.Time.Format(time.RFC3339), "--follow=false", "--json")
		v.Command = tail + " | " + shell.Line("grep", "-F", "-m1", "-e", jsonMember("contentId", id))
	}
	if !typeable(key) || !typeable(mediaType) {
		return
	}
	file := fmt.Sprintf("%s-%d-%d.body", v.Feed, v.Page, v.Index)
	curl := []string{"curl", "-fsS", "-o", file}
	if !c.access.OpenReads() {
		curl = append(curl, "-u", "USER")
	}
	v.Curl = shell.Line(append(curl, c.baseURL(r)+v.Ref.DownloadURL())...)
	publish := []string{"feedctl", "publish", v.Feed, "-", "--store", c.config.StoreName, "--format", "raw", "--op", v.Operation}
	if key != "" {
		publish = append(publish, "--key-value", key)
	}
	if mediaType != "" {
		publish = append(publish, "--content-type", mediaType)
	}
	v.Publish = shell.Line(publish...) + " < " + shell.Line(file)
}

// typeable reports whether a text can be pasted into a terminal: it has no invisible characters, and none that control
// the terminal, where they may end a quotation.
func typeable(text string) bool {
	return len(text) <= maxWord && utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// baseURL returns the URL of the console as the browser knows it, with a slash at its end.
func (c *Console) baseURL(r *http.Request) string {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	asked, _, _ := strings.Cut(r.RequestURI, "?")
	return scheme + r.Host + strings.TrimSuffix(asked, r.URL.Path) + "/" // the path may begin with a prefix that was stripped
}
