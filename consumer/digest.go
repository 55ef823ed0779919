package consumer

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"
)

// ErrDamaged means that a body does not match its digest (RFC 9530), the checksum of its
// content coding, or the Content-Length of a part.
var ErrDamaged = errors.New("body is damaged")

// declaredDigest returns the SHA-256 of the content of a response as declared in its header, or
// nil. It ignores the Repr-Digest of a partial response, since this is the digest of the whole
// page.
func declaredDigest(status int, h http.Header) []byte {
	if sum := sha256Member(h, "Content-Digest"); sum != nil || status != http.StatusOK {
		return sum
	}
	return sha256Member(h, "Repr-Digest")
}

// sha256Member returns the member "sha-256" of a field that is a dictionary of byte
// sequences (RFC 9651, section 3.2). A malformed member is ignored, as is a malformed field
// (section 4.2).
func sha256Member(h http.Header, name string) (sum []byte) {
	for member := range strings.SplitSeq(strings.Join(h.Values(name), ","), ",") {
		value, ok := strings.CutPrefix(strings.TrimSpace(member), "sha-256=:")
		if !ok {
			continue
		}
		text, _, _ := strings.Cut(value, ":")
		if got, err := base64.StdEncoding.DecodeString(text); err == nil && len(got) == sha256.Size {
			sum = got
		}
	}
	return sum
}

// A digestBody is the content of a response with a declared digest. It ends with an error
// instead of io.EOF if the digest differs.
type digestBody struct {
	io.ReadCloser
	url  string
	want []byte
	hash hash.Hash
	err  error // at the end
}

func newDigestBody(body io.ReadCloser, url string, want []byte) *digestBody {
	return &digestBody{ReadCloser: body, url: url, want: want, hash: sha256.New()}
}

func (b *digestBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	b.hash.Write(p[:n])
	if err == io.EOF {
		if got := b.hash.Sum(nil); !bytes.Equal(got, b.want) {
			err = &transportError{url: b.url, err: fmt.Errorf("%w: its SHA-256 is %x, not %x as declared in the header", ErrDamaged, got, b.want)}
		}
		b.err = err
	}
	return n, err
}

// An unverifiedError is an error that occurred while a page was being read, after some of its
// entities were yielded without being verified. These entities must not be relied on.
type unverifiedError struct{ err error }

func (e *unverifiedError) Error() string {
	return e.err.Error() + " (entities of the page were delivered before it was verified: read it again from its start)"
}

func (e *unverifiedError) Unwrap() error { return e.err }
