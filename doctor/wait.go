package doctor

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// slack is how much longer than asked for a wait may take.
const slack = 5 * time.Second

func (v *visit) checkWait(ctx context.Context) result {
	links, err := v.links()
	self, parseErr := url.Parse(links.Self)
	if err != nil || parseErr != nil || links.Self == "" || self.Host != v.feed.Host || self.Scheme != v.feed.Scheme {
		self = v.feed // as well as it goes
	}
	// The page as it is now: it may have grown since.
	now, err := v.get(ctx, self)
	if err != nil || now.status != http.StatusOK || now.etag() == "" {
		return skipped("there is no ETag to wait with")
	}
	asked := v.config.Wait.Truncate(time.Second)
	a, err := v.doWithin(ctx, v.config.Timeout+asked, http.MethodGet, self, fields{
		identity, {"If-None-Match", now.etag()}, {"Prefer", "wait=" + strconv.Itoa(int(asked/time.Second))},
	})
	fix := fmt.Sprintf("let the proxy wait for the server for more than %v (proxy_read_timeout, idle timeout)", asked)
	if err != nil {
		return problem(fmt.Sprintf("a request that waits for news for %v fails: %v", asked, err), fix)
	}
	took := a.took.Round(100 * time.Millisecond)
	switch {
	case a.status != http.StatusNotModified && a.status != http.StatusOK:
		return problem(fmt.Sprintf("a request that waits for news for %v is answered with %s after %v", asked, a.text(), took), fix)
	case a.status == http.StatusOK && a.etag() != now.etag():
		return fine(fmt.Sprintf("there was news after %v", took))
	case a.status == http.StatusOK:
		return skipped("there is no waiting without 304")
	case a.took < asked/2:
		return warning(fmt.Sprintf("a request that may wait for %v is answered with no news after %v", asked, took),
			"have the proxy pass Prefer and If-None-Match on; a server that does not know Prefer: wait is asked again and again, which works")
	case a.took > asked+slack:
		return warning(fmt.Sprintf("a request that may wait for %v is answered after %v", asked, took),
			"let the proxy pass answers on at once (proxy_buffering off)")
	}
	return fine(fmt.Sprintf("a request waits for news for %v", took))
}
