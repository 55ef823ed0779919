package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/storage"
)

// ErrNoAncestry means that the feed was begun without Options.Revs, so it is unknown which
// revisions in it are leaves.
var ErrNoAncestry = errors.New("has no _revisions, so the revisions that it replaces are unknown: publish to another feed, with --revs from its beginning")

// HasConflicts reports whether the bridge that last published to the feed had Options.Conflicts. It
// returns false for a feed that does not exist or is not from a bridge.
func HasConflicts(ctx context.Context, store storage.Store, name string) (bool, error) {
	newest, err := chain.NewReader(store, name).Newest(ctx)
	if errors.Is(err, chain.ErrNoFeed) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read checkpoint of feed %q: %w", name, err)
	}
	at, err := bridge.ParseCheckpoint(newest.Checkpoint, kind, name)
	if errors.Is(err, bridge.ErrForeign) {
		return false, nil
	}
	var s state
	err = errors.Join(err, at.State(&s))
	return s.Conflicts, err
}

// A RevisionReader reads the revisions and ancestors of the entities of a feed. The zero value
// is ready to use. It must not be used concurrently.
type RevisionReader struct {
	json *jsonscan.Reader // kept for its buffer
}

// Revision returns the revision of an entity of a feed, and its ancestors, newest first. The
// revision is empty if the entity is not from a bridge. A revision is a leaf unless it is an
// ancestor of another. The entity's body is read from body, not from e. The error matches
// [ErrNoAncestry] if the entity was published without Options.Revs.
func (r *RevisionReader) Revision(e *feed.Entity, body io.Reader) (rev string, ancestors []string, err error) {
	p, ok := bridge.VersionOf(e.ContentLocation, headerOf(e, "ETag"))
	if !ok || !p.Names(e.ContentID) {
		return "", nil, nil
	}
	doc, err := documentIn(e.ContentType, body)
	if err != nil {
		return "", nil, fmt.Errorf("read document %q, revision %q: %w", p.ID, p.Rev, err)
	}
	if r.json == nil {
		r.json = jsonscan.NewReader(nil)
	}
	r.json.Reset(doc)
	names, err := ancestry(r.json)
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("read document %q, revision %q: %w", p.ID, p.Rev, err)
	case len(names) == 0 || names[0] != p.Rev:
		return "", nil, fmt.Errorf("document %q, revision %q, %w", p.ID, p.Rev, ErrNoAncestry)
	}
	return p.Rev, names[1:], nil
}

func headerOf(e *feed.Entity, name string) string {
	for _, f := range e.Header {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// documentIn returns the JSON in the body of an entity.
func documentIn(contentType string, body io.Reader) (io.Reader, error) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.HasPrefix(media, "multipart/") {
		return body, err
	}
	return multipart.NewReader(body, params["boundary"]).NextRawPart()
}

// maxHistory limits the member _revisions, in bytes. By default, CouchDB keeps the names of
// 1,000 revisions.
const maxHistory = 16 << 20

// ancestry reads _revisions of a document: the names of its revisions, newest first. It returns
// nil if the document has no _revisions.
func ancestry(r *jsonscan.Reader) (names []string, err error) {
	if c, err := r.Peek(); err == io.EOF || err == nil && c != '{' {
		return nil, nil
	}
	err = r.Object(func(name []byte) error {
		if string(name) != `"_revisions"` {
			return r.Skip()
		}
		value, whole, err := r.Value(maxHistory)
		if err != nil {
			return err
		}
		if !whole {
			return fmt.Errorf("its _revisions have more than %d bytes", maxHistory)
		}
		var revisions struct {
			Start int64    `json:"start"`
			IDs   []string `json:"ids"`
		}
		if err := json.Unmarshal(value, &revisions); err != nil {
			return fmt.Errorf("read _revisions: %w", err)
		}
		names = make([]string, len(revisions.IDs))
		for i, id := range revisions.IDs {
			names[i] = strconv.FormatInt(revisions.Start-int64(i), 10) + "-" + id
		}
		return errFound
	})
	if err == errFound { // the rest does not matter
		err = nil
	}
	return names, err
}

var errFound = errors.New("found")
