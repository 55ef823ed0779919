// Package layout defines the names, storage keys and URL paths of feeds and
// snapshots. No other package builds or parses them.
//
// Keys in a store:
//
//	feeds/<feed>/pages/<12 digits>            one page of a feed, numbered from 1
//	feeds/<feed>/floor                        the oldest page that exists (absent: 1)
//	feeds/<feed>/turns                        the producers that take turns to publish (absent: none)
//	feeds/<feed>/retention                    how much of the feed is kept (absent: all)
//	feeds/<feed>/aside/<12 digits>-<tag>      a page that a repair took out of the feed
//	feeds/<feed>/quarantine/<name>            an entity that a bridge could not publish, and why
//	snapshots/<name>/index/<id>               the index of a finished snapshot
//	snapshots/<name>/pages/<id>/<6 digits>    one page of a snapshot, numbered from 0
//	digests/<feed>/roots/<id>                 the root of a state digest
//	digests/<feed>/nodes/<hash>               a node or leaf of state digests, by its SHA-256
//
// Paths on a server:
//
//	/feeds/<feed>                             the newest page
//	/feeds/<feed>/pages/<n>
//	/feeds/<feed>/at                          leads to the page of a time
//	/feeds/<feed>/index/<n>                   tile n of the page index, from 0
//	/snapshots/<name>                         the newest index
//	/snapshots/<name>/<id>
//	/snapshots/<name>/<id>/pages/<n>
//	/digests/<feed>                           the newest root
//	/digests/<feed>/<id>
//	/digests/<feed>/nodes/<hash>
package layout

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ErrName is matched by the error of [CheckName] and of the key parsers.
var ErrName = errors.New("invalid name")

// MaxName is the maximum length of the name of a feed or snapshot, in bytes.
const MaxName = 100

// CheckName returns an error that matches [ErrName] unless name is valid for a feed
// or snapshot: 1 to 100 characters of a-z, A-Z, 0-9, ".", "_" and "-", beginning with
// a letter or a digit, and without "..". A valid name needs no escaping in a URL
// path, a file name or an S3 key.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: empty", ErrName)
	case len(name) > MaxName:
		return fmt.Errorf("%w %.20q...: longer than %d bytes", ErrName, name, MaxName)
	case strings.Contains(name, ".."):
		return fmt.Errorf("%w %q: contains \"..\"", ErrName, name)
	case !alphanumeric(name[0]):
		return fmt.Errorf("%w %q: must begin with a letter or a digit", ErrName, name)
	}
	for i := range len(name) {
		if c := name[i]; !alphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return fmt.Errorf("%w %q: character %q is not one of a-z A-Z 0-9 . _ -", ErrName, name, c)
		}
	}
	return nil
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// FeedsPrefix and SnapshotsPrefix begin the keys of all feeds and of all snapshots.
const (
	FeedsPrefix     = "feeds/"
	SnapshotsPrefix = "snapshots/"
)

// FeedPages returns the prefix of the keys of a feed's pages.
func FeedPages(feed string) string { return FeedsPrefix + feed + "/pages/" }

// FeedPage returns the key of page n of a feed.
func FeedPage(feed string, n int64) string {
	zeros, digits := padded(n, 12)
	return FeedsPrefix + feed + "/pages/" + zeros + digits
}

// padded returns the digits of a number, and the zeros that pad the digits to a width.
func padded(n int64, width int) (zeros, digits string) {
	digits = strconv.FormatInt(n, 10)
	return "000000000000"[:max(0, width-len(digits))], digits
}

// FeedFloor returns the key of the object that holds the number of a feed's
// oldest page.
func FeedFloor(feed string) string { return FeedsPrefix + feed + "/floor" }

// FeedTurns returns the key of the object that lists the producers that take turns to
// publish to a feed.
func FeedTurns(feed string) string { return FeedsPrefix + feed + "/turns" }

// FeedRetention returns the key of the object that says how much of a feed is kept.
func FeedRetention(feed string) string { return FeedsPrefix + feed + "/retention" }

// FeedAside returns the prefix of the keys of pages that a repair took out of a feed.
func FeedAside(feed string) string { return FeedsPrefix + feed + "/aside/" }

// FeedAsidePage returns the key for a state of page n of a feed that was taken out of the feed. The tag
// consists of A-Z, a-z and 0-9, and distinguishes states of the same page.
func FeedAsidePage(feed string, n int64, tag string) string {
	return fmt.Sprintf("%s%012d-%s", FeedAside(feed), n, tag)
}

// FeedQuarantine returns the prefix of the keys of entities that a bridge could not publish to a feed.
func FeedQuarantine(feed string) string { return FeedsPrefix + feed + "/quarantine/" }

// ParseFeedPage returns the page number in a key returned by [FeedPage].
func ParseFeedPage(feed, key string) (int64, error) {
	digits, ok := strings.CutPrefix(key, FeedPages(feed))
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 1 || FeedPage(feed, n) != key {
		return 0, fmt.Errorf("%w: key %q is not a page of feed %q", ErrName, key, feed)
	}
	return n, nil
}

// SnapshotIndexes returns the prefix of the keys of a snapshot's indexes. IDs
// sort by creation time, so the last key with the prefix is the newest index.
func SnapshotIndexes(name string) string { return SnapshotsPrefix + name + "/index/" }

// SnapshotIndex returns the key of the index of one snapshot.
func SnapshotIndex(name, id string) string { return SnapshotIndexes(name) + id }

// snapshotID matches an ID: the time at which the snapshot was begun, and a random suffix.
var snapshotID = regexp.MustCompile(`^\d{8}T\d{6}(\.\d{3})?Z-[a-z0-9]+$`)

// ParseSnapshotIndex returns the ID in a key returned by [SnapshotIndex]. The ID must have
// the form that feedctl writes, such as "20260102T030405.678Z-c5xnp2qa".
func ParseSnapshotIndex(name, key string) (id string, err error) {
	id, ok := strings.CutPrefix(key, SnapshotIndexes(name))
	if !ok || !snapshotID.MatchString(id) {
		return "", fmt.Errorf("%w: key %q is not an index of snapshot %q", ErrName, key, name)
	}
	return id, nil
}

// SnapshotPages returns the prefix of the keys of the pages of one snapshot.
func SnapshotPages(name, id string) string { return SnapshotsPrefix + name + "/pages/" + id + "/" }

// SnapshotPage returns the key of page n of a snapshot.
func SnapshotPage(name, id string, n int) string {
	zeros, digits := padded(int64(n), 6)
	return SnapshotsPrefix + name + "/pages/" + id + "/" + zeros + digits
}

// FeedPath returns the URL path of a feed's newest page, its entry point.
func FeedPath(feed string) string { return "/feeds/" + feed }

// FeedPagePath returns the URL path of page n of a feed.
func FeedPagePath(feed string, n int64) string {
	return FeedPath(feed) + "/pages/" + strconv.FormatInt(n, 10)
}

// FeedTimegatePath returns the URL path of a feed's timegate, which leads to the page of a given time.
func FeedTimegatePath(feed string) string { return FeedPath(feed) + "/at" }

// FeedIndexPath returns the URL path of tile n of the page index of a feed.
func FeedIndexPath(feed string, n int64) string {
	return FeedPath(feed) + "/index/" + strconv.FormatInt(n, 10)
}

// SnapshotPath returns the URL path of the newest index of a snapshot.
func SnapshotPath(name string) string { return "/snapshots/" + name }

// SnapshotIndexPath returns the URL path of the index of one snapshot.
func SnapshotIndexPath(name, id string) string { return SnapshotPath(name) + "/" + id }

// SnapshotPagePath returns the URL path of page n of a snapshot.
func SnapshotPagePath(name, id string, n int) string {
	return SnapshotIndexPath(name, id) + "/pages/" + strconv.Itoa(n)
}
