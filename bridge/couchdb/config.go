package couchdb

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// Attachments says what becomes of a document's attachments.
type Attachments string

// What may become of attachments.
const (
	// None takes the member _attachments out of documents.
	None Attachments = "none"
	// Stub leaves what the server says about attachments: type, size and digest.
	Stub Attachments = "stub"
	// Inline has them in the document, in base64.
	Inline Attachments = "inline"
	// Multipart makes a document with attachments a multipart/related entity, as
	// CouchDB sends it: the document first, then the attachments as they are.
	Multipart Attachments = "multipart"
)

// Options say what of the source is published, and how.
type Options struct {
	// Revs puts each revision's ancestors into the document, as _revisions: what
	// is needed to replicate it into a CouchDB.
	Revs bool `json:"revs,omitempty"`
	// Conflicts publishes every leaf revision of a document, not only the winner.
	// It is for replication into a CouchDB: other readers of the feed cannot
	// know which of them counts.
	Conflicts bool `json:"conflicts,omitempty"`
	// Attachments defaults to Stub.
	Attachments Attachments `json:"attachments,omitempty"`
	// DesignDocs publishes design documents too.
	DesignDocs bool `json:"designDocs,omitempty"`
}

// A Filter is applied by the source. At most one of Name, View, DocIDs and Selector is
// set (CouchDB documentation, "Filtering").
type Filter struct {
	Name     string          `json:"name,omitempty"` // "design/name"
	View     string          `json:"view,omitempty"` // "design/name"
	DocIDs   []string        `json:"docIds,omitempty"`
	Selector json.RawMessage `json:"selector,omitempty"`
	Query    url.Values      `json:"query,omitempty"` // parameters for the filter
}

// options returns what asks for changes that pass the filter.
func (f *Filter) options() changes.Options {
	return changes.Options{Filter: f.Name, View: f.View, DocIDs: f.DocIDs, Selector: f.Selector, Query: f.Query}
}

// picks reports whether it looks into the documents, so that only the source knows which of
// them pass.
func (f *Filter) picks() bool { return f.Name != "" || f.View != "" || f.Selector != nil }

// selection returns a digest of what decides which rows are published: with another
// one, the same place in the source stands for other documents.
func (c *Config) selection() (string, error) {
	text, err := json.Marshal(struct {
		Conflicts, DesignDocs bool
		Filter                Filter
	}{c.Conflicts, c.DesignDocs, c.Filter})
	return couchdb.ReplicationID(string(text))[:16], err
}

// Config holds the settings of a bridge. The zero value of what is not said to be needed
// is its default.
type Config struct {
	Source *couchdb.DB   // needed
	Store  storage.Store // needed; of the feed
	Feed   string        // needed; the feed's name
	// Target names the feed with its store, for the id of the replication log. It
	// should be the same whenever it is the same feed. Defaults to Feed.
	Target string
	// Index is the file of the index, which is made if it does not exist. Needed.
	Index string

	Options
	// Filter limits what is published. With another filter than before, the bridge
	// reads the source from its beginning again, and publishes what is not in the feed.
	Filter Filter
	// Moved: the source is what the feed was filled from, although it has another URL, or was
	// created again. Unless its replication log came with it, it is read from its beginning,
	// and what is not in the feed is published. It is for one run.
	Moved bool
	// MaxDocument puts documents into quarantine that are larger, in bytes, with
	// their attachments as far as these are published. Defaults to no limit.
	MaxDocument int64
	// Follow waits for changes at the end. LongPoll does it with a request for each
	// change, for proxies that hold back what a continuous feed sends.
	Follow   bool
	LongPoll bool
	// Attempts is how often the changes feed is asked for without any progress. 0: 8, or
	// without end with Follow; but who does not follow, and reaches nobody the first time,
	// gets the error at once. Negative: without end.
	Attempts int
	// Producer holds the settings of the feed's producer. Its MaxWaiting defaults to
	// 2 MiB here.
	Producer producer.Config
	// Log gets what an operator should know. Defaults to none.
	Log *slog.Logger
}

// fetchers is how many requests for documents are under way at a time, and fetchDocs how
// many documents each of them asks for.
const (
	fetchers  = 4
	fetchDocs = 100
)

func (c Config) withDefaults() (Config, error) {
	if c.Attachments == "" {
		c.Attachments = Stub
	}
	if c.Target == "" {
		c.Target = c.Feed
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	switch c.Attachments {
	case None, Stub, Inline, Multipart:
	default:
		return c, fmt.Errorf("configure bridge: attachments %q are not one of none, stub, inline, multipart", c.Attachments)
	}
	filter := c.Filter.options()
	if err := filter.Check(); err != nil {
		return c, fmt.Errorf("configure bridge: %w", err)
	}
	if c.Source == nil {
		return c, errors.New("configure bridge: Source is needed")
	}
	return c, nil
}
