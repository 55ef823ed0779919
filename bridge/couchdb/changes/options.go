package changes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/jsonscan"
)

// Feed is a kind of changes feed (CouchDB documentation, "Changes Feeds").
type Feed int

// Kinds of feeds.
const (
	// Normal reads up to the present end of the feed: then Next returns io.EOF.
	Normal Feed = iota
	// Continuous stays connected and waits for further rows.
	Continuous
	// LongPoll waits as well, with a request for each time that something
	// happens. It is for proxies that hold back what a continuous feed sends.
	LongPoll
)

func (f Feed) String() string { return [...]string{"normal", "continuous", "longpoll"}[f] }

// Options say what is read. The zero value reads the whole feed to its end.
type Options struct {
	Feed Feed
	// Since is the position to start after: a [Batch.Seq] or
	// [Follower.Position] as it was stored. nil: the beginning.
	Since json.RawMessage
	// Instance is the [Follower.Instance] that was stored with Since. If the
	// database is another one now, Next returns [ErrRecreated]. Empty: whatever
	// is there when the follower starts.
	Instance string
	// Limit ends the feed after so many rows. 0: no limit.
	Limit int64

	// PageRows has a Normal feed read in answers of at most so many rows, each asked for
	// when the one before has come. It is for servers that gather an answer before they
	// send its first byte, as PouchDB Server does. The first answer that is not full is
	// the end of the feed. 0: one answer has all.
	PageRows int64

	// AllDocs asks for all leaves of each document (style=all_docs). Otherwise
	// a row has the winning revision only.
	AllDocs bool
	// Filter is the name of a filter: "design/name", or one of CouchDB's. At most
	// one of Filter, DocIDs, Selector and View can be given.
	//
	// A filtered feed is silent as long as nothing passes the filter. To move
	// on nevertheless, after a minute of silence the follower reads what there
	// is up to the end, with a normal feed, and then waits again.
	Filter string
	// DocIDs limits the feed to these documents (filter=_doc_ids), if it is not
	// empty. CouchDB looks up to 1,000 of them, of 3.3 and before 100, without
	// going through the whole feed.
	DocIDs []string
	// Selector limits the feed to documents that match (filter=_selector).
	Selector json.RawMessage
	// View limits the feed to documents that a view has: "design/name"
	// (filter=_view).
	View string
	// Query has further parameters, for a filter's own use. Those that the follower
	// sets, or that would lead it astray, such as descending, are refused.
	Query url.Values

	// IncludeDocs asks for the winning revision with each row.
	IncludeDocs bool
	// SeqInterval asks for a sequence with every so many rows only, which saves
	// the server work. What comes after the last sequence is read again after a
	// reconnect. 0: with each row.
	SeqInterval int

	// BatchRows and BatchBytes limit a batch; a row that is larger is alone in
	// its batch. A follower holds no more than two batches that were not asked
	// for yet. 0: 1000 rows, 1 MiB.
	BatchRows  int
	BatchBytes int
	// MaxWhole is the size in bytes up to which a document is held in memory; a
	// larger one is in a temporary file in SpoolDir (empty: the system's
	// directory for them). 0: 1 MiB.
	MaxWhole int
	SpoolDir string
	// Heartbeat is how often the server should show that it is there, at most
	// every minute. If nothing comes for three of them, the follower
	// reconnects. 0: 10 s, as the protocol recommends.
	Heartbeat time.Duration
	// MinRetry and MaxRetry are the shortest and the longest pause before the
	// follower reconnects; it grows by two, and a random part of up to a half
	// is off. 0: 250 ms and 30 s.
	MinRetry, MaxRetry time.Duration
	// Reconnect, if set, is called before the feed is asked for again after the connection
	// was lost, with the position to go on from and what went wrong. If its error is
	// [couchdb.Retryable], that is one more thing that went wrong; any other ends the
	// follower.
	Reconnect func(ctx context.Context, since json.RawMessage, cause error) error
	// Attempts is how often a follower reconnects without any progress. 0: 8 for
	// Normal, and no limit otherwise; negative: no limit.
	Attempts int
	// Heard, if set, is called when a part of an answer came, heartbeats among them.
	Heard func()
	// Log gets what goes wrong before each reconnect. nil: nothing.
	Log *slog.Logger
}

func (o *Options) setDefaults() {
	o.BatchRows = cmp.Or(o.BatchRows, 1000)
	o.BatchBytes = cmp.Or(o.BatchBytes, 1<<20)
	o.MaxWhole = cmp.Or(o.MaxWhole, 1<<20)
	o.Heartbeat = cmp.Or(o.Heartbeat, 10*time.Second)
	o.MinRetry = cmp.Or(o.MinRetry, 250*time.Millisecond)
	o.MaxRetry = cmp.Or(o.MaxRetry, 30*time.Second)
	if o.Feed == Normal {
		o.Attempts = cmp.Or(o.Attempts, 8)
	} else {
		o.Attempts = cmp.Or(o.Attempts, -1)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Check reports what is wrong with the options, as [New] does.
func (o *Options) Check() error {
	o.setDefaults()
	filters := 0
	for _, given := range [...]bool{o.Filter != "", len(o.DocIDs) > 0, o.Selector != nil, o.View != ""} {
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
	case o.Since != nil && seqText(o.Since) == "now":
		return errors.New("\"now\" is not a position: it would be another one after a reconnect")
	case o.Feed < Normal || o.Feed > LongPoll:
		return fmt.Errorf("there is no kind of feed %d", int(o.Feed))
	case o.Heartbeat < time.Millisecond || o.Heartbeat > time.Minute:
		return fmt.Errorf("a heartbeat of %v is not between 1 ms and 1 min", o.Heartbeat)
	case o.MinRetry < 0 || o.MaxRetry < o.MinRetry:
		return fmt.Errorf("there are no pauses between %v and %v", o.MinRetry, o.MaxRetry)
	}
	for _, name := range [...]string{
		"attachments", "conflicts", "descending", "doc_ids", "feed", "filter", "heartbeat", "include_docs", "last-event-id",
		"limit", "selector", "seq_interval", "since", "style", "timeout", "view",
	} {
		if o.Query.Has(name) {
			return fmt.Errorf("the parameter %s is not one for a filter: it would change what the follower asks for", name)
		}
	}
	for name, n := range map[string]int64{
		"Limit": o.Limit, "PageRows": o.PageRows, "SeqInterval": int64(o.SeqInterval), "BatchRows": int64(o.BatchRows),
		"BatchBytes": int64(o.BatchBytes), "MaxWhole": int64(o.MaxWhole),
	} {
		if n < 0 {
			return fmt.Errorf("%s must not be negative", name)
		}
	}
	return nil
}

// filtered reports whether rows are missing from the feed.
func (o *Options) filtered() bool {
	return o.Filter != "" || len(o.DocIDs) > 0 || o.Selector != nil || o.View != ""
}

// request makes the request for a feed of this kind, from a position on.
func (o *Options) request(kind Feed, since json.RawMessage, limit int64) (couchdb.Request, error) {
	query := make(url.Values)
	for name, values := range o.Query {
		query[name] = values
	}
	query.Set("feed", kind.String())
	query.Set("heartbeat", strconv.FormatInt(o.Heartbeat.Milliseconds(), 10))
	if since != nil {
		query.Set("since", seqText(since))
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
	body, err := o.filter(query)
	if err != nil || body == nil {
		return q, err
	}
	post := couchdb.JSONRequest(http.MethodPost, q.Path, body)
	q.Method, q.Header, q.Body, q.Length = post.Method, post.Header, post.Body, post.Length
	return q, nil
}

// filter adds the filter to the query, and returns what has to be posted for
// it, if anything.
func (o *Options) filter(query url.Values) ([]byte, error) {
	switch {
	case o.Filter != "":
		query.Set("filter", o.Filter)
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

// seqText returns a sequence as it is in a query: a string without its quotes,
// anything else as it is.
func seqText(seq json.RawMessage) string {
	if text, err := jsonscan.Unquote(bytes.TrimSpace(seq)); err == nil {
		return text
	}
	return string(seq)
}
