package server

import (
	"context"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/retention"
)

// explainGone adds to the response for a page that is gone a link to where clients can continue: the newest
// snapshot with the name of the feed, if there is one. If the page was pruned, the response also says how
// much of the feed is kept, as far as the store responds.
func (s *Server) explainGone(w *responder, r *http.Request, p *problem.Error) {
	name := r.PathValue("feed")
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	snapshot := ""
	if _, err := s.reader.NewestSnapshot(ctx, name); err == nil {
		snapshot = s.base(r) + layout.SnapshotPath(name)
		w.Header().Set("Link", "<"+snapshot+`>; rel="snapshot"`)
	}
	if !p.Named("page-pruned") {
		return
	}
	p.Members = map[string]any{}
	if snapshot != "" {
		p.Members["snapshot"] = snapshot
	}
	if policy, err := retention.Read(ctx, s.store, name); err == nil {
		p.Members["keepAgeSeconds"] = int64(policy.KeepAge / time.Second)
	}
	f, err := s.feed(name)
	if err != nil {
		return
	}
	floor := f.SeenFloor()
	p.Members["oldestPage"] = s.base(r) + layout.FeedPagePath(name, floor)
	if oldest, err := f.Stat(ctx, floor); err == nil {
		p.Members["oldestTime"] = feed.Truncate(oldest.First).UTC().Format(time.RFC3339)
	}
}
