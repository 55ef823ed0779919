package input

import (
	"bytes"
	"io"
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/feed"
)

// Single returns the entity that an HTTP request carries: its body, with the
// Operation-Type field (PUT if there is none) and all Content-* fields of its
// header. Other fields concern the request and are ignored. size is the size of the body, or -1 if
// unknown. A body of more than maxWhole bytes is not read, but becomes the entity's Stream.
func Single(header textproto.MIMEHeader, body io.Reader, size int64, maxWhole int) (*feed.Entity, error) {
	e := new(feed.Entity)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if lower := strings.ToLower(name); lower != "operation-type" && !strings.HasPrefix(lower, "content-") {
			continue
		}
		for _, value := range header[name] {
			if err := setField(e, name, value); err != nil {
				return nil, &Error{Err: err}
			}
		}
	}
	if err := complete(e); err != nil {
		return nil, &Error{Err: err}
	}
	if err := setBody(e, body, size, maxWhole); err != nil {
		return nil, &Error{Err: err}
	}
	return e, nil
}

// setBody sets the body of an entity. It reads a body of up to maxWhole bytes; a larger one becomes
// a Stream.
func setBody(e *feed.Entity, body io.Reader, size int64, maxWhole int) error {
	whole, err := io.ReadAll(io.LimitReader(body, int64(maxWhole)+1))
	if err != nil {
		return err
	}
	if len(whole) <= maxWhole {
		e.Body = whole
		return nil
	}
	e.Stream, e.Size = io.MultiReader(bytes.NewReader(whole), body), size
	return nil
}
