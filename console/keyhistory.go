package console

import (
	"net/http"

	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/shell"
	multipart "github.com/feedctl/feedctl/page"
)

// A keyHistoryView shows the entities with one key.
type keyHistoryView struct {
	page
	scanView
	Of  entityRef // the entity whose history was requested
	Key string
	// Newest is the URL of the history from the newest entity; "" if this page shows it.
	Newest string
}

// errNoKey means that an entity has no key, and therefore no history.
var errNoKey = problem.New(http.StatusNotFound, "no-key", "The entity has no key (Content-Location), and therefore no history.")

// getKeyHistory answers requests for "/history". It lists the entities with the key of a given entity, backwards from
// that entity or from a given place.
func (c *Console) getKeyHistory(r *http.Request) (content, error) {
	ref, err := parseRef(r)
	if err != nil {
		return nil, err
	}
	v := &keyHistoryView{scanView: scanView{Scan: &scan{}, None: "No entity on these pages has this key."}}
	if v.Key, err = c.keyOf(r, ref); err != nil {
		return nil, err
	}
	v.Of = ref
	v.Title = "History of a key in " + ref.Feed
	v.Scan.match = func(h multipart.Header) (string, bool) { return "", keyOf(h) == v.Key }
	from := place{ref.Page, ref.Index + 1}
	before := r.URL.Query().Get("before")
	if before != "" {
		from = parsePlace(before)
	}
	if err := c.scanFrom(r.Context(), ref.Feed, from, v.Scan); err != nil {
		return nil, err
	}
	here := ref.HistoryURL() + "&before="
	if before != "newest" {
		v.Newest = here + "newest"
	}
	if v.Scan.Next != nil {
		v.Next = here + v.Scan.Next.String()
	}
	if typeable(v.Key) {
		v.Command = shell.Line("feedctl", "tail", ref.Feed, "--store", c.config.StoreName, "--from", "beginning", "--follow=false", "--json") +
			" | " + shell.Line("grep", "-F", "-e", jsonMember("key", v.Key))
	}
	return v, nil
}

// keyOf returns the key of an entity.
func (c *Console) keyOf(r *http.Request, ref entityRef) (string, error) {
	o, err := c.openPage(r.Context(), ref.Feed, ref.Page)
	if err != nil {
		return "", err
	}
	defer o.close()
	part, err := o.part(ref.Index)
	if err != nil {
		return "", err
	}
	if key := keyOf(part.Header); key != "" {
		return key, nil
	}
	return "", errNoKey
}

// jsonMember returns a member of a JSON object as "feedctl tail --json" prints it.
func jsonMember(name, value string) string {
	member := jsonscan.AppendString(nil, name)
	return string(jsonscan.AppendText(append(member, ':'), value))
}
