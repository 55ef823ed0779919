package represent

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/feedctl/feedctl/feed"
)

// Fields holds the header fields of all responses with a representation. If requests share the
// representation, the fields are computed once. The values must not be changed.
type Fields struct {
	common      http.Header         // fields that do not depend on the content coding
	etag        map[string][]string // by content coding
	contentType []string

	// Without a content coding:
	ranges []string
	length []string // of the whole
	digest []string // nil if the value may differ for the next request
}

// Fields returns the fields of responses with a representation.
func (s *Sender) Fields(rep *Representation) *Fields {
	h := make(http.Header)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Last-Modified", feed.FormatTime(rep.Modified))
	if len(rep.Links) > 0 {
		h["Link"] = slices.Clip(rep.Links)
	}
	if rep.Chain != "" {
		h.Set(feed.ChainHeader, rep.Chain)
	}
	if rep.Location != "" {
		h.Set("Content-Location", rep.Location)
	}
	h.Set("Cache-Control", s.CacheControl(rep))
	f := &Fields{
		common: h, etag: make(map[string][]string), contentType: []string{rep.ContentType},
		ranges: []string{"bytes"}, length: []string{strconv.FormatInt(rep.size(), 10)},
	}
	for _, coding := range []string{"", codingGzip, codingZstd} {
		f.etag[coding] = []string{rep.ETag(coding)}
	}
	if sum, err := hex.DecodeString(rep.Sum); err == nil && len(sum) == sha256.Size {
		f.digest = digestField(sum)
	}
	return f
}

// fields returns the fields of a representation. It computes them if the representation is not shared.
func (s *Sender) fields(rep *Representation) *Fields {
	if rep.Fields != nil {
		return rep.Fields
	}
	return s.Fields(rep)
}

// set sets the fields that a 200 and a 304 have in common (RFC 9110, section 15.4.5). They include
// Link and the chain, since caches update stored responses with the fields of a 304.
func (f *Fields) set(h http.Header, coding string) {
	maps.Copy(h, f.common)
	h["Etag"] = f.etag[coding]
}

// digestField returns the value of Repr-Digest for a SHA-256, or nil if sum is nil.
func digestField(sum []byte) []string {
	if sum == nil {
		return nil
	}
	return []string{"sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":"}
}
