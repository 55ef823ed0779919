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
	// Normal reads up to the current end of the feed. Then Next returns io.EOF.
	Normal Feed = iota
	// Continuous stays connected and waits for further rows.
	Continuous
	// LongPoll waits with a new request after each response with rows. It is for
	// proxies that buffer the rows of a continuous feed.
	LongPoll
)

func (f Feed) String() string { return [...]string{"normal", "continuous", "longpoll"}[f] }

// Options configure a [Follower]. The zero value reads the whole feed to its end.
type Options struct {
	Feed Feed
	// Since is the position to start after: a stored [Batch.Seq] or
	// [Follower.Position]. nil: the beginning.
	Since json.RawMessage
	// Instance is the [Follower.Instance] that was stored with Since. If the
	// database has been replaced since, Next returns [ErrRecreated]. Empty: any
	// database.
	Instance string
	// Limit ends the feed after this number of rows. 0: no limit.
	Limit int64

	// PageRows limits the rows of each response of a Normal feed, which is then read
	// with several requests. It is for servers that buffer a whole response before they
	// send its first byte, such as PouchDB Server. The feed ends with the first response
	// that has fewer rows. 0: one response has all rows.
	PageRows int64

	// AllDocs requests all leaves of each document (style=all_docs). Otherwise
	// a row has only the winning revision.
	AllDocs bool
	// Filter is the name of a filter: "design/name", or one of CouchDB's. At most
	// one of Filter, DocIDs, Selector and View may be set.
	//
	// A filtered feed is silent while nothing passes the filter. To advance its
	// position, the follower reads up to the end with a normal feed after each minute
	// of silence, and then waits again.
	Filter string
	// DocIDs limits the feed to these documents (filter=_doc_ids), if it is not
	// empty. CouchDB reads up to 1,000 documents (100 in versions up to 3.3) without
	// going through the whole feed.
	DocIDs []string
	// Selector limits the feed to documents that match (filter=_selector).
	Selector json.RawMessage
	// View limits the feed to documents in a view: "design/name" (filter=_view).
	View string
	// Query has parameters for the filter. Parameters that the follower sets, or that
	// would break it, such as descending, are refused.
	Query url.Values

	// IncludeDocs requests the winning revision with each row.
	IncludeDocs bool
	// SeqInterval requests a sequence only with every SeqInterval-th row, which is
	// cheaper for the server. Rows after the last sequence are read again after a
	// reconnect. 0: with each row.
	SeqInterval int

	// BatchRows and BatchBytes limit a batch; a larger row is alone in its batch. A
	// follower reads at most two batches ahead. 0: 1000 rows, 1 MiB.
	BatchRows  int
	BatchBytes int
	// MaxWhole is the size in bytes up to which a document is held in memory. 0: 1 MiB.
	// Larger ones are in a temporary file in SpoolDir (empty: [os.TempDir]).
	MaxWhole int
	SpoolDir string
	// Heartbeat is the interval at which the server sends heartbeats, at most 1 min. If
	// nothing is received for three intervals, the follower reconnects. 0: 10 s, which
	// the protocol recommends.
	Heartbeat time.Duration
	// MinRetry and MaxRetry are the shortest and the longest pause before the follower
	// reconnects. The pause doubles with each attempt, and is shortened by a random part
	// of up to a half. 0: 250 ms and 30 s.
	MinRetry, MaxRetry time.Duration
	// Reconnect, if set, is called before each reconnect after a failure, with the
	// position to continue from and the error. If it returns an error that is
	// [couchdb.Retryable], that counts as another failure. Any other error ends the
	// follower.
	Reconnect func(ctx context.Context, since json.RawMessage, cause error) error
	// Attempts is how often a follower reconnects without any progress. 0: 8 for
	// Normal, and no limit otherwise; negative: no limit.
	Attempts int
	// Heard, if set, is called when a part of a response, such as a heartbeat, is
	// received.
	Heard func()
	// Log receives the error before each reconnect. nil: errors are not logged.
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

// Check returns an error if the options are invalid. [New] calls it.
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
		return errors.New("invalid position \"now\": its meaning would change with a reconnect")
	case o.Feed < Normal || o.Feed > LongPoll:
		return fmt.Errorf("invalid kind of feed %d", int(o.Feed))
	case o.Heartbeat < time.Millisecond || o.Heartbeat > time.Minute:
		return fmt.Errorf("invalid heartbeat %v: must be between 1 ms and 1 min", o.Heartbeat)
	case o.MinRetry < 0 || o.MaxRetry < o.MinRetry:
		return fmt.Errorf("invalid MinRetry %v and MaxRetry %v: must not be negative, nor MaxRetry the smaller", o.MinRetry, o.MaxRetry)
	}
	for _, name := range [...]string{
		"attachments", "conflicts", "descending", "doc_ids", "feed", "filter", "heartbeat", "include_docs", "last-event-id",
		"limit", "selector", "seq_interval", "since", "style", "timeout", "view",
	} {
		if o.Query.Has(name) {
			return fmt.Errorf("invalid parameter %s: it is reserved for the follower, not for filters", name)
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

// filtered reports whether the feed has a filter.
func (o *Options) filtered() bool {
	return o.Filter != "" || len(o.DocIDs) > 0 || o.Selector != nil || o.View != ""
}

// request returns the request for a feed of this kind, starting after a position.
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

// filter adds the filter to the query. It returns a request body if the filter needs one.
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

// seqText returns a sequence for use in a query: a string without its quotes, other
// JSON unchanged.
func seqText(seq json.RawMessage) string {
	if text, err := jsonscan.Unquote(bytes.TrimSpace(seq)); err == nil {
		return text
	}
	return string(seq)
}
