package couchdb

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// Attachments says how the attachments of documents are published.
type Attachments string

// Ways to publish attachments.
const (
	// None removes the member _attachments from documents.
	None Attachments = "none"
	// Stub publishes only the type, size and digest of attachments.
	Stub Attachments = "stub"
	// Inline publishes attachments within the document, in base64.
	Inline Attachments = "inline"
	// Multipart publishes a document with attachments as a multipart/related entity,
	// as CouchDB sends it: the document first, then the attachments unchanged.
	Multipart Attachments = "multipart"
)

// Options are options for publishing documents.
type Options struct {
	// Revs adds the member _revisions to documents, with each revision's ancestors.
	// It is required to replicate the feed into a CouchDB.
	Revs bool `json:"revs,omitempty"`
	// Conflicts publishes every leaf revision of a document, not only the winner.
	// It is for replication into a CouchDB: other readers of the feed cannot tell
	// which revision is the winner.
	Conflicts bool `json:"conflicts,omitempty"`
	// Attachments defaults to Stub.
	Attachments Attachments `json:"attachments,omitempty"`
	// DesignDocs publishes design documents too.
	DesignDocs bool `json:"designDocs,omitempty"`
}

// A Filter is applied by the source.
type Filter = changes.Filter

// selection returns a digest of the settings that determine which rows are published. A
// checkpoint is valid only with the same selection.
func (c *Config) selection() (string, error) {
	text, err := json.Marshal(struct {
		Conflicts, DesignDocs bool
		Filter                Filter
	}{c.Conflicts, c.DesignDocs, c.Filter})
	return couchdb.ReplicationID(string(text))[:16], err
}

// Config configures a bridge. Source, Store, Feed and Index are required.
type Config struct {
	Source *couchdb.DB
	Store  storage.Store // of the feed
	Feed   string        // the feed's name
	// Target identifies the feed and its store, for the id of the replication log. It
	// should always be the same for the same feed. Defaults to Feed.
	Target string
	// Index is the path of the index, which is created if it does not exist.
	Index string

	Options
	// Filter limits the changes that are published. If it differs from that of the last
	// run, the bridge reads the source from its beginning, and publishes the revisions
	// that are not in the feed.
	Filter Filter
	// Moved declares that the source is the one that the feed was filled from, although its URL has
	// changed or it was created again. If the source does not have the replication log, it is read
	// from its beginning, and the revisions that are not in the feed are published. Set it for one
	// run only.
	Moved bool
	// MaxDocument limits the size of a document with the attachments that are published, in bytes.
	// Larger documents are put into quarantine. Zero means no limit.
	MaxDocument int64
	// Follow waits for changes at the end. LongPoll makes a new request after each response, for
	// proxies that buffer a continuous feed.
	Follow   bool
	LongPoll bool
	// Idle, if not nil, is called with Follow whenever a check that began after the previous call
	// finds that the feed has all changes of the source. While the source sends nothing, it is
	// checked every few seconds.
	Idle func()
	// Attempts is how many times the changes feed is requested without any progress. Zero means no limit
	// with Follow, otherwise 8, except that the bridge fails at once if the first connection cannot
	// be established. Negative: no limit.
	Attempts int
	// Producer configures the feed's producer. Its MaxWaiting defaults to 2 MiB.
	Producer producer.Config
	// Log receives messages for operators. nil means no logging.
	Log *slog.Logger
}

// fetchers is how many requests for documents run concurrently, and fetchDocs how many
// documents each of them requests.
const (
	fetchers  = 4
	fetchDocs = 100
)

func (c Config) withDefaults() (Config, error) {
	c.Attachments = cmp.Or(c.Attachments, Stub)
	c.Target = cmp.Or(c.Target, c.Feed)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("configure bridge: %w", err)
	}
	if c.Source == nil {
		return c, errors.New("configure bridge: Source is required")
	}
	return c, nil
}

// Check returns an error if the options or the filter are invalid.
func (c *Config) Check() error {
	switch c.Attachments {
	case "", None, Stub, Inline, Multipart:
		return (&changes.Options{Filter: c.Filter}).Check()
	}
	return fmt.Errorf("attachments %q is not one of none, stub, inline, multipart", c.Attachments)
}
