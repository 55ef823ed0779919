package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/inprocess"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
)

// Store checks a feed in a store: first what is stored (the hash chain, gaps, and
// the metadata of pages against their bodies), then what a consumer sees, as [Feed]
// does. Pages below the floor and orphans beyond the newest page are invisible to consumers and not
// checked. However, pages beyond the newest page must be orphans: at most [chain.Ahead] pages away,
// and not overdue (see [chain.Page.Overdue]).
//
// Violations are in the report. URLs in the report begin with base, the name of the store, such as
// file:///srv/data; if base is "", they are only paths. Store returns an error only if it could not
// check the feed; the error matches [chain.ErrNoFeed] if the feed does not exist.
func Store(ctx context.Context, store storage.Store, feedName, base string) (*Report, error) {
	if err := layout.CheckName(feedName); err != nil {
		return nil, err
	}
	stored := storeCheck{
		store: store, feed: feedName, chain: chain.NewReader(store, feedName),
		report: newReport("store", "store:"+feedName, Config{}), numbers: make(map[string]int),
		seen: make(map[string]storage.Info),
	}
	if err := stored.check(ctx); err != nil {
		return nil, fmt.Errorf("check feed %q in the store: %w", feedName, err)
	}
	if stored.endless {
		stored.report.finish(func(url string) int { return stored.numbers[url] })
		return stored.report, nil
	}
	asServed, err := served(ctx, seenStore{store, stored.seen}, base, layout.FeedPath(feedName), Feed)
	if err != nil {
		return nil, err
	}
	report := stored.report
	report.First, report.Last = asServed.First, asServed.Last
	report.Omitted += asServed.Omitted
	for _, v := range asServed.Violations {
		stored.numbers[v.URL] = v.Page
		report.addViolation(v)
	}
	report.finish(func(url string) int { return stored.numbers[url] })
	return report, nil
}

// readAhead is the maximum memory, in bytes, for pages that the server reads ahead from a remote
// store. The check is its only reader.
const readAhead = 12 << 20

// A seenStore needs no request for Stat of objects that were read before and cannot change.
type seenStore struct {
	storage.Store
	seen map[string]storage.Info
}

// maxSeen is the maximum size of storeCheck.seen, in bytes.
const maxSeen = 8 << 20

// Unwrap returns the wrapped store.
func (s seenStore) Unwrap() storage.Store { return s.Store }

// Stat implements [storage.Store].
func (s seenStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	if info, ok := s.seen[key]; ok {
		return info, nil
	}
	return s.Store.Stat(ctx, key)
}

// StoreSnapshot checks the newest snapshot of the given name in a store, as a server serves it to a
// consumer. URLs in the report begin with base, as for [Store].
func StoreSnapshot(ctx context.Context, store storage.Store, name, base string) (*Report, error) {
	report, err := served(ctx, store, base, layout.SnapshotPath(name), Snapshot)
	var status *StatusError
	if errors.As(err, &status) {
		return nil, fmt.Errorf("check %s: %w", base+layout.SnapshotPath(name), status)
	}
	return report, err
}

// servedOrigin is the origin of the server in this process that serves the store: links in
// responses are HTTP URLs (specification, section "Pagination"). A consumer.Source would need no
// origin, but then verify and consumers would share the code that turns stored data into links and
// entities, and errors of package server would not be found.
const servedOrigin = "http://localhost"

// served calls check with the URL of a server in this process. URLs in the report begin with base.
func served(ctx context.Context, store storage.Store, base, path string,
	check func(ctx context.Context, url string, c Config) (*Report, error),
) (report *Report, err error) {
	var config server.Config
	if storage.PropertiesOf(store).Remote {
		config.ReadAhead = readAhead
	}
	s, err := server.New(store, config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	report, err = check(ctx, servedOrigin+path, Config{HTTPClient: &http.Client{Transport: inprocess.Transport(s)}, renamed: &base})
	if err != nil {
		return nil, err
	}
	report.URL = report.shown(report.URL)
	for i := range report.Violations {
		report.Violations[i].URL = report.shown(report.Violations[i].URL)
	}
	return report, nil
}

// A storeCheck checks the objects of a feed in a store.
type storeCheck struct {
	store   storage.Store
	feed    string
	chain   *chain.Reader
	report  *Report
	numbers map[string]int // numbers of the pages with violations, by key

	seen     map[string]storage.Info // pages that have a next page, by key
	seenSize int                     // in bytes, roughly

	endless       bool // the end of the feed cannot be found, so a server cannot serve the feed
	floor, newest int64
	before        *chain.Page // the previous page; nil if it was not read
}

func (s *storeCheck) check(ctx context.Context) error {
	if err := s.ends(ctx); err != nil {
		return err
	}
	next := s.floor // the number of the page that must follow
	for entry, err := range s.store.List(ctx, layout.FeedPages(s.feed), "") {
		if err != nil {
			return err
		}
		n, err := layout.ParseFeedPage(s.feed, entry.Key)
		if err != nil {
			s.report.add(StrayObject, entry.Key, "it is among the pages but is not a page")
			continue
		}
		if n > s.newest { // perhaps the page was published a moment ago
			if err := s.ends(ctx); err != nil {
				return err
			}
		}
		unborn := false
		if n > s.newest {
			if unborn, err = s.unborn(ctx, n); err != nil {
				return err
			}
		}
		switch {
		case n < s.floor, unborn:
			continue
		case n > s.newest+chain.Ahead:
			s.report.add(Gap, entry.Key, "the feed ends with page %d, and this page is too far beyond it to be an orphan of a killed producer", s.newest)
			return nil // reported only once: the same applies to all further pages
		case n > s.newest:
			if err := s.orphan(ctx, n); err != nil {
				return err
			}
			continue
		}
		s.gap(next, n)
		if err := s.page(ctx, n); err != nil {
			return err
		}
		next = n + 1
	}
	if floor, err := s.chain.Floor(ctx); err == nil {
		next = max(next, floor) // pages may have been pruned or replaced meanwhile
	}
	s.gap(next, s.newest+1)
	return nil
}

// unborn reports whether a page beyond the newest one is a copy written by an erasure that was not
// completed.
func (s *storeCheck) unborn(ctx context.Context, n int64) (bool, error) {
	info, err := s.store.Stat(ctx, layout.FeedPage(s.feed, n))
	if err != nil {
		return false, ignoreMissing(err)
	}
	p, err := chain.Decode(s.feed, n, info)
	return err == nil && p.Floor > s.floor, nil
}

// ignoreMissing returns nil if err means that an object does not exist or has an unknown layout,
// and err otherwise.
func ignoreMissing(err error) error {
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrLayout) {
		return nil
	}
	return err
}

// orphan reports a page beyond the newest one if no producer can link it any more.
func (s *storeCheck) orphan(ctx context.Context, n int64) error {
	key := layout.FeedPage(s.feed, n)
	info, err := s.store.Stat(ctx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil // replaced or removed
	}
	if err != nil {
		return err
	}
	newest, err := s.chain.Newest(ctx)
	if err != nil || n <= newest.Number {
		return err // the page was published a moment ago
	}
	now, err := storage.Now(ctx, s.store, time.Now)
	if err != nil {
		return err
	}
	if p := (&chain.Page{Number: n, Modified: info.Modified}); p.Overdue(newest, now) {
		s.report.add(Gap, key, "the feed ends with page %d, which does not lead to this page, %s", newest.Number, chain.Overdue)
	}
	return nil
}

// ends finds the floor and the newest page of the feed.
func (s *storeCheck) ends(ctx context.Context) error {
	floor, err := s.chain.Floor(ctx)
	if err != nil && !errors.Is(err, chain.ErrCorrupt) {
		return err
	}
	if err != nil && s.floor == 0 {
		s.report.add(Metadata, layout.FeedFloor(s.feed), "%v", err)
	}
	s.floor = max(floor, s.floor, 1)
	newest, err := s.chain.Newest(ctx)
	switch {
	case err == nil:
		s.newest = newest.Number
	case errors.Is(err, chain.ErrCorrupt):
		// The cause is reported when the damaged page is read or the missing page is noticed.
		s.endless = true
		return s.highest(ctx)
	default:
		return err
	}
	return nil
}

// highest takes the page with the highest number as the newest page, since the chain is broken.
func (s *storeCheck) highest(ctx context.Context) error {
	for entry, err := range s.store.List(ctx, layout.FeedPages(s.feed), "") {
		if err != nil {
			return err
		}
		if n, err := layout.ParseFeedPage(s.feed, entry.Key); err == nil {
			s.newest = n
		}
	}
	return nil
}

// gap reports that the pages numbered in [n, end), if any, are missing.
func (s *storeCheck) gap(n, end int64) {
	if n >= end {
		return
	}
	s.before = nil
	beyond := ""
	switch {
	case end == s.newest:
		beyond = fmt.Sprintf(": page %d exists", end)
	case end < s.newest:
		beyond = fmt.Sprintf(": pages %d to %d exist", end, s.newest)
	}
	key := layout.FeedPage(s.feed, n)
	if n == end-1 {
		s.report.add(Gap, key, "page %d is missing%s", n, beyond)
	} else {
		s.report.add(Gap, key, "pages %d to %d are missing%s", n, end-1, beyond)
	}
}

func (s *storeCheck) page(ctx context.Context, n int64) error {
	before := s.before
	s.before = nil
	key := layout.FeedPage(s.feed, n)
	object, err := s.store.Get(ctx, key, 0, -1)
	if errors.Is(err, storage.ErrNotFound) {
		if floor, err := s.chain.Floor(ctx); err != nil || n < floor {
			return err // pruned a moment ago
		}
		s.gap(n, n+1)
		return nil
	}
	if err != nil {
		return err
	}
	s.report.Pages++
	found := len(s.report.Violations)
	defer func() {
		if len(s.report.Violations) > found {
			s.numbers[key] = s.report.Pages
		}
	}()
	p, err := chain.Decode(s.feed, n, object.Info)
	if err != nil {
		s.report.add(Metadata, key, "%v", err)
		return object.Body.Close()
	}
	s.before = p
	s.record(p, object.Info)
	if p.Closed && n < s.newest {
		s.keep(object.Info)
	}
	c := bodyCheck{report: s.report, key: key, page: p}
	if err := errors.Join(c.body(object.Body), object.Body.Close()); err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	s.link(key, before, p)
	return nil
}

// members lists the members that a page's metadata may have (docs/storage-format.md).
var members = []string{
	"format", "feed", "page", "boundary", "entities", "firstMs", "lastMs", "lastContentId", "sha256",
	"prev", "closed", "checkpoint", "settled", "floor", "crc32c",
}

// record checks what readers of a page's metadata ignore: unknown members, since these may be known
// members with a damaged name, and the Content-Type.
func (s *storeCheck) record(p *chain.Page, info storage.Info) {
	var found map[string]json.RawMessage
	if err := json.Unmarshal(info.Meta.Data, &found); err != nil {
		s.report.add(Metadata, info.Key, "its metadata cannot be read: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !slices.Contains(members, name) {
			s.report.add(Metadata, info.Key, "its metadata has the unknown member %.100q", name)
		}
	}
	if want := page.ContentType(p.Boundary); info.Meta.ContentType != want {
		s.report.add(Metadata, info.Key, "its Content-Type is %.200q, but should be %q", info.Meta.ContentType, want)
	}
}

// keep keeps the info of a page for seenStore, unless maxSeen would be exceeded.
func (s *storeCheck) keep(info storage.Info) {
	const overhead = 512
	if size := overhead + len(info.Meta.Data); s.seenSize+size <= maxSeen {
		s.seen[info.Key] = info
		s.seenSize += size
	}
}

// link checks that a page follows the page before it, which is nil if that page was not read.
func (s *storeCheck) link(key string, before, p *chain.Page) {
	if !p.Closed && p.Number < s.newest {
		s.report.add(Chain, key, "it is open, but page %d follows it", p.Number+1)
	}
	switch {
	case p.Number == 1 && p.Prev != "":
		s.report.add(Chain, key, "it is the first page, but has the digest %s of a previous page", p.Prev)
	case p.Number > 1 && p.Prev == "":
		s.report.add(Chain, key, "it does not have the digest of the previous page")
	case before != nil && p.Prev != before.Digest():
		s.report.add(Chain, key, "it has %s as the digest of the previous page, which is %s", p.Prev, before.Digest())
	}
	if before != nil && p.First.Before(before.Last) {
		s.report.add(Metadata, key, "its first entity is from %v, but the previous page ends at %v", p.First, before.Last)
	}
}
