package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

// Multipart yields the parts of a multipart document of any subtype. Their headers become the
// headers of the entities. Content-Type is required except for a DELETE; a missing Operation-Type
// means PUT. Bodies larger than limits.MaxWhole become Streams.
func Multipart(r io.Reader, contentType string, limits page.ReaderOptions) iter.Seq2[*feed.Entity, error] {
	return func(yield func(*feed.Entity, error) bool) {
		boundary, err := page.Boundary(contentType)
		if err != nil {
			yield(nil, &Error{Where: "Content-Type", Err: invalid(err)})
			return
		}
		for part, err := range page.NewReader(r, boundary, limits).Parts() {
			if err != nil {
				yield(nil, pageError(err))
				return
			}
			e, err := entity(part)
			if err != nil {
				yield(nil, &Error{Where: fmt.Sprintf("part %d, offset %d", part.Index, part.Offset), Err: err})
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func entity(part *page.Part) (*feed.Entity, error) {
	e := new(feed.Entity)
	for _, field := range part.Header {
		if err := setField(e, string(field.Name), string(field.Value)); err != nil {
			return nil, err
		}
	}
	if err := complete(e); err != nil {
		return nil, err
	}
	if part.Stream != nil {
		e.Stream, e.Size = part.Stream, -1
	} else {
		e.Body = bytes.Clone(part.Body)
	}
	return e, nil
}

// malformed holds the causes of a [page.Error] that mean that the document is malformed. Other
// causes come from the underlying reader.
var malformed = []error{
	page.ErrTruncated, page.ErrNoParts, page.ErrMalformedHeader, page.ErrHeaderTooLarge,
	page.ErrPartTooLarge, page.ErrContentLength, page.ErrBoundary,
}

func pageError(err error) error {
	where := ""
	var at *page.Error
	if errors.As(err, &at) {
		where, err = fmt.Sprintf("part %d, offset %d", at.Part, at.Offset), at.Err
	}
	if slices.ContainsFunc(malformed, func(cause error) bool { return errors.Is(err, cause) }) {
		err = invalid(err)
	}
	return &Error{Where: where, Err: err}
}
