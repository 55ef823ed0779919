package kinto

import (
	"fmt"
	"strings"

	"github.com/feedctl/feedctl/layout"
)

// FeedNames is the pattern of the names of a bucket's feeds, such as "blog-*": the "*" stands for
// the name of the collection.
type FeedNames string

// Check returns an error if the pattern is invalid.
func (f FeedNames) Check() error {
	if strings.Count(string(f), "*") != 1 {
		return fmt.Errorf("%q does not name a feed for each collection: want one \"*\" in it, for the name of the collection, as in \"kinto-*\"", string(f))
	}
	return layout.CheckName(f.Feed("c"))
}

// Feed returns the name of the feed of a collection.
func (f FeedNames) Feed(collection string) string {
	return strings.Replace(string(f), "*", collection, 1)
}

// Collection returns the name of the collection of a feed. ok is false if the name of the feed does
// not match the pattern.
func (f FeedNames) Collection(feed string) (name string, ok bool) {
	before, after, _ := strings.Cut(string(f), "*")
	name, begins := strings.CutPrefix(feed, before)
	name, ends := strings.CutSuffix(name, after)
	return name, begins && ends && name != ""
}
