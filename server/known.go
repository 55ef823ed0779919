package server

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/httpfield"
	"github.com/feedctl/feedctl/internal/represent"
)

// errOutdated means that the page in the store is neither the known state of the page nor a later one.
var errOutdated = errors.New("what was known of the feed is outdated")

// serveKnown answers a client that requests the newest page and would wait for a change, if the client is
// known to have missed one already. Such a client follows the feed; it gets the change at once, without a
// poll of the store first. serveKnown reports whether it has answered.
func (s *Server) serveKnown(w *responder, r *http.Request, name string) (bool, error) {
	if preferredWait(r.Header.Values("Prefer"), s.config.MaxWait) == 0 || len(r.Header["If-None-Match"]) == 0 {
		return false, nil
	}
	f, err := s.reader.Feed(name)
	if err != nil {
		return false, nil //nolint:nilerr // the caller gets the same error
	}
	floor, fresh := f.FreshFloor()
	coding, acceptable := represent.Coding(r)
	newest := f.After(func(sum string) bool {
		before := represent.Representation{Tag: shortDigest(sum)}
		return httpfield.MatchesETag(r.Header["If-None-Match"], before.ETag(coding), true)
	})
	if !fresh || !acceptable || newest == nil || newest.Number < floor {
		return false, nil
	}
	res := &feedPage{server: s, feed: f, number: newest.Number, seen: newest, floor: floor, base: s.base(r), entry: true, known: true}
	rep := res.represent(newest)
	if represent.Precondition(r, rep, rep.ETag(coding)) != 0 {
		return false, nil
	}
	err = s.sender.Send(w, r, res, rep)
	return !errors.Is(err, errOutdated), err
}

// checkKnown returns an error that matches errOutdated unless p is the known page, as it was seen or
// in a later state.
func (f *feedPage) checkKnown(p *chain.Page, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", errOutdated, err)
	}
	if p.Boundary != f.seen.Boundary || p.Entities < f.seen.Entities {
		return errOutdated
	}
	return nil
}
