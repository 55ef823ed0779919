package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/feedctl/feedctl/feed"
)

// A Version is a revision of a document. A feed has each version once.
type Version struct{ ID, Rev string }

// ContentID returns the Content-ID of a version: "<ID@REV>", both percent-encoded. If that is longer
// than a header may be, ID is "sha256:" and the SHA-256 of the id in hex; no encoded id has a colon.
func (v Version) ContentID() string {
	id, rev := feed.EncodeKey(v.ID), feed.EncodeKey(v.Rev)
	if len(id)+len(rev)+len("<@>") > feed.MaxContentID {
		sum := sha256.Sum256([]byte(v.ID))
		id = "sha256:" + hex.EncodeToString(sum[:])
	}
	return "<" + id + "@" + rev + ">"
}

// ContentIDOver returns the Content-ID of a version that is published again because it replaces rev,
// which was published after it.
func (v Version) ContentIDOver(rev string) string {
	id := v.ContentID()
	return id[:len(id)-1] + overMark + feed.EncodeKey(rev) + ">"
}

const overMark = ";after="

// Names reports whether a Content-ID belongs to the version.
func (v Version) Names(contentID string) bool {
	id := v.ContentID()
	return contentID == id || strings.HasPrefix(contentID, id[:len(id)-1]+overMark)
}

// Entity returns the entity of a version without its body.
func (v Version) Entity(op feed.Operation, contentType string) *feed.Entity {
	return &feed.Entity{
		ContentID:       v.ContentID(),
		Operation:       op,
		ContentType:     contentType,
		ContentLocation: feed.EncodeKey(v.ID),
		Header:          []feed.Field{{Name: "ETag", Value: `"` + v.Rev + `"`}},
	}
}

// VersionOf returns the version of an entity with this Content-Location and ETag. It returns false
// if the entity is not from a bridge.
func VersionOf(location, etag string) (Version, bool) {
	rev, opened := strings.CutPrefix(etag, `"`)
	rev, closed := strings.CutSuffix(rev, `"`)
	if !opened || !closed || location == "" || rev == "" {
		return Version{}, false
	}
	return Version{(&feed.Entity{ContentLocation: location}).Key(), rev}, true
}
