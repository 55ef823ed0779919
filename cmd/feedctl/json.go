package main

import (
	"time"

	"github.com/feedctl/feedctl/doctor"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/producer"
)

// The types in this file, and the results of package task, are what commands print with --json, one
// JSON text per line on standard output. They are a contract: members may be added, but those that
// are here keep their names and meanings. Times are RFC 3339 in UTC, sizes are in bytes. "consume
// --into -" and "tail --json" print entities, in the form of the jsonl sink.

// publishJSON is printed by "publish".
type publishJSON struct {
	Feed       string `json:"feed"`
	Read       int64  `json:"read"`       // entities of the input that are in the feed now
	Skipped    int64  `json:"skipped"`    // of these, skipped because of --resume
	Published  int64  `json:"published"`  // of these, written by this run
	Duplicates int64  `json:"duplicates"` // of these, found in the feed by their Content-ID
	// Page and ContentID are those of the last entity written; absent if none was.
	// The page is a URL, or only its path if it is in the store.
	Page      string `json:"page,omitempty"`
	ContentID string `json:"contentId,omitempty"`
	// Time is when the run ended.
	Time time.Time `json:"time"`
}

// statusJSON is printed by "status", one for each line.
type statusJSON struct {
	Sink     string        `json:"sink"`
	Name     string        `json:"name,omitempty"` // of the table or the consumer, if the sink may have several
	Position feed.Position `json:"position"`
	// LagSeconds is how much older the position is than the newest entity of the feed;
	// absent if that is not known.
	LagSeconds *float64 `json:"lagSeconds,omitempty"`
}

// serveJSON is printed by "serve" when it is ready.
type serveJSON struct {
	URL     string `json:"url"`
	Console string `json:"console,omitempty"`
}

// deletedJSON is printed by "snapshot delete".
type deletedJSON struct {
	Name string `json:"name"`
	ID   string `json:"id"`
}

// deletedFeedJSON is printed by "delete".
type deletedFeedJSON struct {
	Feed   string `json:"feed"`
	DryRun bool   `json:"dryRun"` // then nothing was deleted
	producer.DeleteReport
}

// newEpochJSON is printed by "new-epoch", for each feed.
type newEpochJSON struct {
	Feed     string    `json:"feed"`
	DryRun   bool      `json:"dryRun"`   // if set, nothing was changed, and the IDs are examples
	Identity string    `json:"identity"` // of the feed
	Number   int64     `json:"number"`   // of the epoch; 0: the feed has no pages, and a new identity
	Epoch    string    `json:"epoch,omitempty"`
	Last     time.Time `json:"last,omitzero"` // Last-Modified of the entity after which it begins
}

// collectedJSON is printed by "snapshot collect".
type collectedJSON struct {
	Name         string `json:"name"`
	PagesDeleted int64  `json:"pagesDeleted"`
}

// pageJSON is printed by "inspect" as the member "page" of a line for each page.
type pageJSON struct {
	URL      string    `json:"url"` // only the path of a page in the store
	Entities int64     `json:"entities"`
	Bytes    int64     `json:"bytes"` // in the store: of the page; from a server: of the bodies
	First    time.Time `json:"first"` // Last-Modified of the first entity
	Last     time.Time `json:"last"`  // and of the last
	Prev     string    `json:"prev,omitempty"`
	Next     string    `json:"next,omitempty"`
}

// feedJSON is the last line of "inspect", as the member "feed". Its members are
// the sums of those of the pages. For a snapshot, "inspect" prints a task.Snapshot as the member
// "snapshot".
type feedJSON struct {
	Feed     string    `json:"feed"` // name or URL
	Pages    int64     `json:"pages"`
	Entities int64     `json:"entities"`
	Bytes    int64     `json:"bytes"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
}

// doctorJSON is printed by "doctor".
type doctorJSON struct {
	Problems int              `json:"problems"` // how many of the findings are problems
	Findings []doctor.Finding `json:"findings"`
}

// initJSON is printed by "init".
type initJSON struct {
	Store string `json:"store"`
	Made  bool   `json:"made"` // false: it existed
}

// migrateJSON is printed by "migrate". The versions are 0 for stores that have none.
type migrateJSON struct {
	Store  string `json:"store"`
	DryRun bool   `json:"dryRun"` // then nothing was done
	schema.Plan
}

// copyJSON is printed by "copy". It counts what this run has written.
type copyJSON struct {
	Source        string `json:"source"`
	Target        string `json:"target"`
	Feeds         int    `json:"feeds"`
	Entities      int64  `json:"entities"` // of feeds
	Pages         int64  `json:"pages"`    // of feeds; those that were begun
	SnapshotPages int64  `json:"snapshotPages"`
	Bytes         int64  `json:"bytes"`
}

// listJSON is printed by "list", one for each line.
type listJSON struct {
	Kind   string      `json:"kind"` // "feed" or "snapshot"
	Name   string      `json:"name"`
	Pages  int64       `json:"pages"`            // of the feed, or of the newest snapshot
	Newest *newestJSON `json:"newest,omitempty"` // the newest page of the feed, or the newest snapshot
	Error  string      `json:"error,omitempty"`  // it is damaged
}

// listedJSON is printed by "list" of a server, one for each line.
type listedJSON struct {
	Kind string `json:"kind"` // "feed" or "snapshot"
	Name string `json:"name"`
	URL  string `json:"url"`
}

type newestJSON struct {
	Entities int64     `json:"entities"`
	Bytes    int64     `json:"bytes"`
	Time     time.Time `json:"time"` // Last-Modified of the newest entity, or createdAt
}
