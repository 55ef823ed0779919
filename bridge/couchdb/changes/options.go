package changes

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/feedctl/feedctl/couchdb"
)

// Feed is a kind of changes feed (CouchDB documentation, "Changes Feeds").
type Feed int

// Kinds of feeds.
const (
	// Normal reads up to the current end of the feed, where Follow returns nil.
	Normal Feed = iota
	// Continuous stays connected and waits for further rows.
	Continuous
	// LongPoll waits for further rows with one request after another, each of which ends once it has
	// rows. It is for proxies that buffer the rows of a continuous feed.
	LongPoll
)

func (f Feed) String() string { return [...]string{"normal", "continuous", "longpoll"}[f] }

// A Filter is applied by the server (CouchDB documentation, "Filtering"). At most one of Name, View,
// DocIDs and Selector may be set.
//
// A filtered feed is silent while nothing passes the filter. To advance its position, the follower
// reads up to the end with a normal feed after each minute of silence, and then waits again.
type Filter struct {
	Name string `json:"name,omitempty"` // "design/name", or one of CouchDB's
	View string `json:"view,omitempty"` // "design/name" of a view (filter=_view)
	// DocIDs are the ids of documents (filter=_doc_ids). CouchDB reads up to 1,000 documents (100 in
	// versions up to 3.3) without going through the whole feed.
	DocIDs   []string        `json:"docIds,omitempty"`
	Selector json.RawMessage `json:"selector,omitempty"` // of documents (filter=_selector)
	// Query has parameters for the filter. Parameters that the follower sets, or that would break
	// it, such as descending, are refused.
	Query url.Values `json:"query,omitempty"`
}

// Picks reports whether the filter depends on the content of documents.
func (f *Filter) Picks() bool { return f.Name != "" || f.View != "" || f.Selector != nil }

// Options configure a [Follower]. The zero value reads the whole feed to its end.
type Options struct {
	Feed Feed
	// Since is the position to start after: a stored [Batch.Seq]. nil means the beginning.
	Since json.RawMessage
	// Instance is the [Follower.Instance] that was stored with Since. If the database has been
	// replaced since, Follow returns [ErrRecreated]. Empty: any database.
	Instance string
	// PageRows limits the rows of each response of a Normal feed, which is then read
	// with several requests. It is for servers that buffer a whole response before they
	// send its first byte, such as PouchDB Server. The feed ends with the first response
	// that has fewer rows. Zero means that one response has all rows.
	PageRows int64

	// AllDocs requests all leaves of each document (style=all_docs). Otherwise
	// a row has only the winning revision.
	AllDocs bool
	Filter

	// IncludeDocs requests the winning revision with each row.
	IncludeDocs bool
	// SeqInterval requests a sequence only with every SeqInterval-th row, which is cheaper for the
	// server. Rows after the last sequence are read again after an error. Zero requests one with each row.
	SeqInterval int

	// BatchRows and BatchBytes limit a batch; a larger row is alone in its batch. Zero
	// means 1000 rows and 1 MiB.
	BatchRows  int
	BatchBytes int
	// Heartbeat is the interval at which the server sends heartbeats, at most 1 min. If
	// nothing is received for three intervals, Follow returns an error. Zero means 10 s, which
	// the protocol recommends.
	Heartbeat time.Duration
	// Heard, if set, is called when a part of a response, such as a heartbeat, is received.
	Heard func()
	// Log receives a warning about a feed without rows. nil means no logging.
	Log *slog.Logger
}

func (o *Options) setDefaults() {
	o.BatchRows = cmp.Or(o.BatchRows, 1000)
	o.BatchBytes = cmp.Or(o.BatchBytes, 1<<20)
	o.Heartbeat = cmp.Or(o.Heartbeat, 10*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Heard == nil {
		o.Heard = func() {}
	}
}

// Check returns an error if the options are invalid. [New] calls it.
func (o *Options) Check() error {
	o.setDefaults()
	filters := 0
	for _, given := range [...]bool{o.Name != "", len(o.DocIDs) > 0, o.Selector != nil, o.View != ""} {
		if given {
			filters++
		}
	}
	switch {
	case filters > 1:
		return errors.New("give only one of a filter, document ids, a selector and a view")
	case o.Selector != nil && !json.Valid(o.Selector):
		return errors.New("the selector is not valid JSON")
	case o.Since != nil && !json.Valid(o.Since):
		return fmt.Errorf("the position %.100q is not valid JSON", o.Since)
	case o.Since != nil && couchdb.SeqText(o.Since) == "now":
		return errors.New("invalid position \"now\": its meaning would change with a reconnect")
	case o.Feed < Normal || o.Feed > LongPoll:
		return fmt.Errorf("invalid kind of feed %d", int(o.Feed))
	case o.Heartbeat < time.Millisecond || o.Heartbeat > time.Minute:
		return fmt.Errorf("invalid heartbeat %v: must be between 1 ms and 1 min", o.Heartbeat)
	}
	for _, name := range [...]string{
		"attachments", "conflicts", "descending", "doc_ids", "feed", "filter", "heartbeat", "include_docs", "last-event-id",
		"limit", "selector", "seq_interval", "since", "style", "timeout", "view",
	} {
		if o.Query.Has(name) {
			return fmt.Errorf("invalid parameter %s: it is reserved for the follower, not for filters", name)
		}
	}
	if min(o.PageRows, int64(o.SeqInterval), int64(o.BatchRows), int64(o.BatchBytes)) < 0 {
		return errors.New("PageRows, SeqInterval, BatchRows and BatchBytes must not be negative")
	}
	return nil
}

// filtered reports whether the feed has a filter.
func (o *Options) filtered() bool { return o.Picks() || len(o.DocIDs) > 0 }

// request returns the request for a feed of this kind, starting after a position.
func (o *Options) request(kind Feed, since json.RawMessage, limit int64) (couchdb.Request, error) {
	query := make(url.Values)
	for name, values := range o.Query {
		query[name] = values
	}
	query.Set("feed", kind.String())
	query.Set("heartbeat", strconv.FormatInt(o.Heartbeat.Milliseconds(), 10))
	if since != nil {
		query.Set("since", couchdb.SeqText(since))
	}
	if limit > 0 {
		query.Set("limit", strconv.FormatInt(limit, 10))
	}
	if o.AllDocs {
		query.Set("style", "all_docs")
	}
	if o.SeqInterval > 0 {
		query.Set("seq_interval", strconv.Itoa(o.SeqInterval))
	}
	if o.IncludeDocs {
		query.Set("include_docs", "true")
	}
	q := couchdb.Request{Path: "_changes", Query: query, Once: true, IdleTimeout: 3 * o.Heartbeat}
	body, err := o.addFilter(query)
	if err != nil || body == nil {
		return q, err
	}
	post := couchdb.JSONRequest(http.MethodPost, q.Path, body)
	q.Method, q.Header, q.Body, q.Length = post.Method, post.Header, post.Body, post.Length
	return q, nil
}

// addFilter adds the filter to the query. It returns a request body if the filter needs one.
func (o *Options) addFilter(query url.Values) ([]byte, error) {
	switch {
	case o.Name != "":
		query.Set("filter", o.Name)
	case o.View != "":
		query.Set("filter", "_view")
		query.Set("view", o.View)
	case len(o.DocIDs) > 0:
		query.Set("filter", "_doc_ids")
		return json.Marshal(map[string][]string{"doc_ids": o.DocIDs})
	case o.Selector != nil:
		query.Set("filter", "_selector")
		return json.Marshal(map[string]json.RawMessage{"selector": o.Selector})
	}
	return nil, nil
}
