package doctor

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// slack is how much longer than requested a wait may take.
const slack = 5 * time.Second

func (v *visit) checkWait(ctx context.Context) result {
	links, err := v.links()
	self, parseErr := url.Parse(links.Self)
	if err != nil || parseErr != nil || links.Self == "" || self.Host != v.feed.Host || self.Scheme != v.feed.Scheme {
		self = v.feed // second best
	}
	// Request the current page, since the page may have grown.
	now, err := v.get(ctx, self)
	if err != nil || now.status != http.StatusOK || now.etag() == "" {
		return skipped("there is no ETag to send")
	}
	asked := v.config.Wait.Truncate(time.Second)
	a, err := v.doWithin(ctx, v.config.Timeout+asked, http.MethodGet, self, fields{
		identity, {"If-None-Match", now.etag()}, {"Prefer", "wait=" + strconv.Itoa(int(asked/time.Second))},
	})
	fix := fmt.Sprintf("raise the proxy's timeout above %v (proxy_read_timeout, idle timeout)", asked)
	if err != nil {
		return problem(fmt.Sprintf("a long-poll of %v fails: %v", asked, err), fix)
	}
	took := a.took.Round(100 * time.Millisecond)
	switch {
	case a.status != http.StatusNotModified && a.status != http.StatusOK:
		return problem(fmt.Sprintf("the response to a long-poll of %v is %s after %v", asked, a.text(), took), fix)
	case a.status == http.StatusOK && a.etag() != now.etag():
		return fine(fmt.Sprintf("new entities arrived after %v", took))
	case a.status == http.StatusOK:
		return skipped("a long-poll requires 304")
	case a.took < asked/2:
		return warning(fmt.Sprintf("a long-poll of %v returned after %v without new entities", asked, took),
			"make the proxy forward Prefer and If-None-Match; if the server does not support Prefer: wait, consumers poll instead")
	case a.took > asked+slack:
		return warning(fmt.Sprintf("a long-poll of %v returned only after %v", asked, took),
			"make the proxy forward responses immediately (proxy_buffering off)")
	}
	return fine(fmt.Sprintf("a long-poll waited for %v", took))
}
