package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/shell"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// Limits of the list of feeds.
const (
	feedsAPage  = 50
	maxNames    = 20_000 // that one request examines during a search
	maxNamesFar = 5_000  // maxNames for a remote store, which lists 1,000 names per request
)

// A feedRow is a feed in a list.
type feedRow struct {
	Name    string
	Known   bool // the feed has been read; otherwise the rest is not known yet
	State   string
	Last    time.Time // of the newest entity
	Spark   string    // the path of the sparkline of the last day
	Day     int64     // entities in the last day
	DayOK   bool      // Day is exact, not an estimate
	Pages   int64
	Total   amount
	Problem string // why it cannot be read
	Readers ReadersSummary
}

// feedsTable is what the template "feeds" shows.
type feedsTable struct {
	Rows       []feedRow
	HasReaders bool
}

// feedRows returns the rows of feeds, with only the fields that are known so far.
func (c *Console) feedRows(ctx context.Context, names []string) feedsTable {
	table := feedsTable{HasReaders: c.config.Readers != nil}
	known := c.summaries.of(ctx, names, summaryWait)
	now := c.config.Now()
	for _, name := range names {
		row := feedRow{Name: name}
		s := known[name]
		switch {
		case s == nil:
		case errors.Is(s.Err, chain.ErrNoFeed):
			continue // it was deleted, or is being created
		case s.Err != nil:
			row.Known, row.State, row.Problem = true, stateDamaged, cut(s.Err.Error(), maxText)
		default:
			row.Known, row.State, row.Last = true, stateOf(s.Newest, now), s.Newest.Last
			row.Spark, row.Day, row.DayOK = spark(s.Day.Entities), s.Day.total(s.Day.Entities), s.Day.Exact
			row.Pages, row.Total = s.Newest.Number-s.Floor+1, s.Total
		}
		if c.config.Readers != nil {
			row.Readers = c.config.Readers.Summary(name)
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

// feedsView is a page of the list of feeds.
type feedsView struct {
	page
	feedsTable
	Query string
	Live  string // URL of this list, for script
	First string // URL of the first page; "" if this is the first
	Next  string // URL of the next page, or for continuing the search
	// Looked is the number of names that a search has examined without reaching the end of the list; 0 if it has
	// reached the end.
	Looked int
}

// getFeeds answers requests for "/feeds". In the query, "q" is the text to find in names, and "after" is the name
// after which the list begins.
func (c *Console) getFeeds(r *http.Request) (content, error) {
	query, err := searched(r)
	if err != nil {
		return nil, err
	}
	after := r.URL.Query().Get("after")
	if after != "" {
		if err := layout.CheckName(after); err != nil {
			return nil, err
		}
	}
	v := &feedsView{page: page{Title: "Feeds", Command: shell.Line("feedctl", "list", "--store", c.config.StoreName)}, Query: query}
	v.Live = feedsURL(query, after) + "&part=list"
	if after != "" {
		v.First = feedsURL(query, "")
	}
	names, last, err := c.findFeeds(r.Context(), query, after)
	if err != nil {
		return nil, err
	}
	if last != "" {
		v.Next = feedsURL(query, last)
		if len(names) < feedsAPage {
			v.Looked = c.mostNames()
		}
	}
	v.feedsTable = c.feedRows(r.Context(), names)
	return v, nil
}

// feedsURL returns the URL of a page of the list of feeds.
func feedsURL(query, after string) string {
	return "feeds?" + url.Values{"q": {query}, "after": {after}}.Encode()
}

// findFeeds returns one page of the names of feeds that contain query, and the name after which to continue if there
// may be more.
func (c *Console) findFeeds(ctx context.Context, query, after string) (names []string, last string, err error) {
	looked, query := 0, strings.ToLower(query)
	for name, err := range chain.Feeds(ctx, c.config.Store, after) {
		if err != nil {
			return nil, "", fmt.Errorf("list feeds: %w", err)
		}
		if len(names) == feedsAPage || looked == c.mostNames() {
			return names, after, nil
		}
		looked++
		if after = name; strings.Contains(strings.ToLower(name), query) {
			names = append(names, name)
		}
	}
	return names, "", nil
}

// firstFeeds returns the first names of feeds, at most limit, and whether there are more.
func (c *Console) firstFeeds(ctx context.Context, limit int) (names []string, more bool, err error) {
	for name, err := range chain.Feeds(ctx, c.config.Store, "") {
		if err != nil {
			return nil, false, fmt.Errorf("list feeds: %w", err)
		}
		if len(names) == limit {
			return names, true, nil
		}
		names = append(names, name)
	}
	return names, false, nil
}

// mostNames returns how many names one request examines during a search.
func (c *Console) mostNames() int {
	if storage.PropertiesOf(c.config.Store).Remote {
		return maxNamesFar
	}
	return maxNames
}
