package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/snapshot"
)

// maxIndex is the maximum size of an index, in bytes, enough for about 300,000 pages.
const maxIndex = 32 << 20

// Snapshot checks the snapshot whose index is at url. Violations are in the report;
// Snapshot returns an error only if it could not check the snapshot, as [Feed] does.
func Snapshot(ctx context.Context, url string, c Config) (report *Report, err error) {
	v, err := newVisit(ctx, c, "snapshot", url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.pages.close()) }()
	response, err := v.fetch.do(ctx, http.MethodGet, url)
	if err != nil {
		return nil, fmt.Errorf("check snapshot %s: %w", url, err)
	}
	index, err := v.index(url, response)
	if err != nil || index == nil {
		return v.report, err
	}
	for i := range v.pages.count {
		url := v.pages.at(i).url
		if v.pages.err != nil {
			return nil, v.pages.err
		}
		response, err := v.fetch.do(ctx, http.MethodGet, url)
		if err != nil {
			if err := v.unreachable(url, err); err != nil {
				return nil, err
			}
			continue
		}
		if _, err := v.read(i, response); err != nil {
			return nil, err
		}
	}
	if index.Entities > 0 && v.whole == v.pages.count && v.report.Entities != index.Entities {
		v.report.add(EntityCount, url, "it names %d entities, but its pages have %d", index.Entities, v.report.Entities)
	}
	return v.report, v.finish()
}

// index checks an index and adds its pages to the list. It returns nil if the index cannot be used.
func (v *visit) index(at string, response *http.Response) (*snapshot.Index, error) {
	data, err := io.ReadAll(io.LimitReader(response.Body, maxIndex+1))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, v.unreachable(at, fmt.Errorf("the body ends after %d bytes: %w", len(data), err))
	}
	if len(data) > maxIndex {
		v.report.add(IndexSchema, at, "it is larger than %d bytes and was not read", maxIndex)
		return nil, nil
	}
	v.indexHeaders(at, response.Header, data)
	var pages []string
	index, err := snapshot.Read(bytes.NewReader(data), func(url string) error {
		pages = append(pages, url)
		return nil
	})
	if err != nil {
		v.report.add(IndexSchema, at, "%v", err)
		return nil, nil
	}
	for i, page := range pages {
		if absolute(page) {
			v.pages.add(listed{url: page})
			continue
		}
		v.report.add(AbsoluteURL, at, "pages[%d] is %.200q", i, page)
		if u, err := response.Request.URL.Parse(page); err == nil && absolute(u.String()) {
			v.pages.add(listed{url: u.String()})
		}
	}
	if index.Feed != nil {
		v.feedPosition(at, index)
	}
	return index, nil
}

func (v *visit) indexHeaders(at string, h http.Header, data []byte) {
	if mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type")); err != nil || mediaType != snapshot.MediaType {
		v.report.add(MediaType, at, "its Content-Type is %q, not %s", h.Get("Content-Type"), snapshot.MediaType)
	}
	declared, err := reprDigests(h)
	if err != nil {
		v.report.add(ReprDigest, at, "%v", err)
	}
	short, long := sha256.New(), sha512.New()
	short.Write(data)
	long.Write(data)
	declared.check(v.report, at, short, long)
}

// feedPosition checks the position in a feed that the index contains.
func (v *visit) feedPosition(at string, index *snapshot.Index) {
	if !absolute(index.Feed.URL) {
		v.report.add(AbsoluteURL, at, "feed.url is %.200q", index.Feed.URL)
	}
	if index.CreatedAt.After(feed.Truncate(index.Feed.LastModified)) {
		v.report.add(CreatedAt, at, "its createdAt is %v, later than its feed position, %v", index.CreatedAt, index.Feed.LastModified)
	}
}

func absolute(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
