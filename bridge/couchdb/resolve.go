package couchdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/jsonscan"
)

// missingPause is how long to wait for a revision that has a row but cannot be read: it may
// not have been replicated to all nodes yet.
const missingPause = 2 * time.Second

// publishSuccessors publishes the successors of a revision that the source no longer has (protocol,
// "Fetch Changed Documents"): a document may change between its row and the request for it.
func (s *run) publishSuccessors(ctx context.Context, gone bridge.Version) error {
	leaves, given, err := s.leaves(ctx, gone, []string{gone.Rev})
	if given && len(leaves) == 0 {
		if err := s.bridge.core.Sleep(ctx, missingPause); err != nil {
			return err
		}
		leaves, given, err = s.leaves(ctx, gone, []string{gone.Rev})
	}
	if !given {
		return err
	}
	if len(leaves) == 0 {
		return s.reject(ctx, bridge.Quarantined{ID: gone.ID, Rev: gone.Rev, Reason: "source has a row for it, but neither this revision nor a later one"})
	}
	if !s.bridge.config.Conflicts {
		leaves = leaves[:1]
	}
	s.bridge.core.Index.Release(gone)
	for _, l := range slices.Backward(leaves) { // the winner last
		p := bridge.Version{ID: gone.ID, Rev: l.rev}
		claims, err := s.bridge.core.Index.Claim(p)
		if err != nil {
			return err
		}
		if p.Rev != gone.Rev {
			s.bridge.core.Meter.Count(func(p *bridge.Progress) { p.Superseded++ })
		}
		if claims[0] != bridge.Absent {
			continue // already published with its own row
		}
		err = s.fetchOne(ctx, p, p.ContentID(), func() error { // gone as well: its successor will have a row
			s.bridge.core.Index.Release(p)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// publishReturned is called for a revision that the feed has, but not as the newest of its
// document. It publishes the revision again if it has become the winner because the winning branch
// was deleted. Usually it has not, and a node that lags has sent an old row.
func (s *run) publishReturned(ctx context.Context, p bridge.Version) error {
	if err := s.SettleAll(ctx); err != nil { // the newest revision may not be in the index yet
		return err
	}
	if held, err := s.bridge.core.Index.Ask(p); held != bridge.Older || err != nil {
		return err
	}
	leaves, given, err := s.leaves(ctx, p, nil)
	if !given {
		return err
	}
	if len(leaves) == 0 || leaves[0].rev != p.Rev {
		return nil
	}
	for _, l := range leaves {
		for _, rev := range l.ancestry {
			held, err := s.bridge.core.Index.Ask(bridge.Version{ID: p.ID, Rev: rev})
			if err != nil {
				return err
			}
			if held == bridge.Newest {
				return s.fetchOne(ctx, p, p.ContentIDOver(rev), func() error { return nil }) // if it is gone, its successor will have a row
			}
		}
	}
	return nil // the source does not have the newest revision in the feed: it lags
}

// A leaf is the end of a branch of a document.
type leaf struct {
	rev      string
	deleted  bool
	ancestry []string // rev and its ancestors, newest first, as far as the source has them
}

// leaves returns the leaves that descend from the given revisions of a document, or all leaves if
// revs is nil, winner first. If given is false, p is in quarantine or there is an error.
func (s *run) leaves(ctx context.Context, p bridge.Version, revs []string) (found []leaf, given bool, err error) {
	given, err = s.retryRead(ctx, p, func() error {
		found = nil
		for doc, err := range s.bridge.config.Source.OpenRevs(ctx, p.ID, revs, couchdb.GetOptions{Revs: true, Latest: true, Once: true}) {
			switch {
			case err != nil:
				return &sourceError{err}
			case errors.Is(doc.Err, couchdb.ErrNotFound):
				continue
			case doc.Err != nil:
				return &sourceError{doc.Err}
			}
			l := leaf{rev: doc.Rev, deleted: doc.Deleted}
			l.ancestry, err = ancestry(jsonscan.NewReader(doc.Body.Reader()))
			if err := errors.Join(err, doc.Body.Close()); err != nil {
				return fmt.Errorf("read revision %q: %w", doc.Rev, err)
			}
			found = append(found, l)
		}
		return nil
	})
	slices.SortFunc(found, compareLeaves)
	return slices.CompactFunc(found, func(a, b leaf) bool { return a.rev == b.rev }), given, err
}

// compareLeaves sorts the winner first: a leaf that is not deleted wins over one that is,
// then the one with the longer history, then the one whose name is greater (CouchDB
// documentation, "Conflict Management").
func compareLeaves(a, b leaf) int {
	switch {
	case a.deleted && !b.deleted:
		return 1
	case b.deleted && !a.deleted:
		return -1
	}
	genA, nameA := splitRev(a.rev)
	genB, nameB := splitRev(b.rev)
	return -cmp.Or(cmp.Compare(genA, genB), cmp.Compare(nameA, nameB))
}

func splitRev(rev string) (generation int64, name string) {
	digits, name, _ := strings.Cut(rev, "-")
	generation, _ = strconv.ParseInt(digits, 10, 64) // 0 if it is not a revision of CouchDB
	return generation, name
}
