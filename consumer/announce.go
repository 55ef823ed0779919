package consumer

import (
	"context"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/origins"
)

// announce sets the position that requests to the feed's own origin announce, which is the last one
// committed. Nothing is announced to a source that is not a server.
func (s *session) announce(at feed.Position) {
	if s.web == nil {
		return
	}
	if u, err := parseURL(at.Page); err != nil || origins.Of(u) != s.web.home {
		at.Page = ""
	}
	header := feed.Announce(s.config.Announce, at).Header()
	s.web.announcement.Store(&header)
}

// announceEnd tells the server the position at the end of a run. Otherwise, the server would know
// only the position in the last request for a page, which was sent before that page was committed. An
// error is only logged.
func (r *run) announceEnd(ctx context.Context) {
	if r.s.web == nil || r.s.config.Announce == "" || r.stats.Batches == 0 {
		return
	}
	resp, err := r.s.try(Request{URL: r.lag.url, Head: true})
	if err != nil {
		r.Logger.DebugContext(ctx, "the server was not told the position", "error", err)
		return
	}
	resp.Body.Close()
}
