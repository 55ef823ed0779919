package verify

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"hash"
	"net/http"
	"strings"
)

// digests holds those digests of a Repr-Digest header that can be checked; a digest that is absent
// is nil.
type digests struct{ sha256, sha512 []byte }

// reprDigests reads Repr-Digest (RFC 9530): a dictionary of byte sequences (RFC
// 8941). Other algorithms are skipped.
func reprDigests(h http.Header) (digests, error) {
	var d digests
	for member := range strings.SplitSeq(strings.Join(h.Values("Repr-Digest"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(member), "=")
		target := map[string]*[]byte{"sha-256": &d.sha256, "sha-512": &d.sha512}[name]
		if target == nil {
			continue
		}
		value, _, _ = strings.Cut(value, ";") // parameters
		text, opened := strings.CutPrefix(strings.TrimSpace(value), ":")
		text, closed := strings.CutSuffix(text, ":")
		sum, err := base64.StdEncoding.DecodeString(text)
		if err != nil || !opened || !closed {
			return digests{}, fmt.Errorf("its Repr-Digest %.200q is not of the form sha-256=:BASE64:", member)
		}
		*target = sum
	}
	return d, nil
}

// check compares the digests with those of the received bytes.
func (d digests) check(report *Report, url string, sha256, sha512 hash.Hash) {
	for _, c := range []struct {
		name string
		want []byte
		got  hash.Hash
	}{{"sha-256", d.sha256, sha256}, {"sha-512", d.sha512, sha512}} {
		if got := c.got.Sum(nil); c.want != nil && !bytes.Equal(c.want, got) {
			report.add(ReprDigest, url, "its Repr-Digest has %s %x, but its body has %x", c.name, c.want, got)
		}
	}
}
