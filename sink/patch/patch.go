// Package patch applies PATCH entities to JSON documents: JSON Merge Patch (RFC
// 7396) and JSON Patch (RFC 6902), by content type.
package patch

import (
	"errors"
	"fmt"
	"mime"
	"strings"

	"github.com/feedctl/feedctl/internal/jsonscan"
)

// The content types of patches.
const (
	Merge = "application/merge-patch+json" // RFC 7396
	JSON  = "application/json-patch+json"  // RFC 6902
)

// MaxSize is the limit in bytes of a document, a patch, and the patched
// document: all are held in memory.
const MaxSize = 1 << 20

var (
	// ErrMissing means that a patch is for a key that does not exist.
	ErrMissing = errors.New("no document with this key exists")
	// ErrContentType means that a patch has neither of the two content types.
	ErrContentType = errors.New("content type is neither " + Merge + " nor " + JSON)
	// ErrTooLarge means that a document or patch is larger than [MaxSize].
	ErrTooLarge = fmt.Errorf("document or patch is larger than %d bytes", MaxSize)
	// ErrInvalid means that a patch is malformed.
	ErrInvalid = errors.New("not a valid patch")
	// ErrNoFit means that a patch does not fit the document.
	ErrNoFit = errors.New("patch does not fit the document")
)

// An Error reports an entity that could not be applied as a patch.
type Error struct {
	Key       string
	ContentID string
	Err       error // an error of this package, or an error that wraps one
}

// Error names the key and the Content-ID.
func (e *Error) Error() string {
	return fmt.Sprintf("patch %q with entity %q: %v", e.Key, e.ContentID, e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Apply returns the patched document. Members that the patch does not name keep
// their order and their spelling; new ones follow in the order of the patch. The
// result has no white space between tokens.
func Apply(document []byte, contentType string, patch []byte) ([]byte, error) {
	if len(document) > MaxSize || len(patch) > MaxSize {
		return nil, ErrTooLarge
	}
	var apply func(document, patch []byte) ([]byte, error)
	switch mediaType(contentType) {
	case Merge:
		apply = applyMerge
	case JSON:
		apply = applyJSON
	default:
		return nil, fmt.Errorf("%w: %q", ErrContentType, contentType)
	}
	// applyMerge and applyJSON rely on well-formed JSON of bounded depth.
	document, ok := jsonscan.AppendCompact(nil, document)
	if !ok {
		return nil, fmt.Errorf("%w: the document is not valid JSON", ErrNoFit)
	}
	patch, ok = jsonscan.AppendCompact(nil, patch)
	if !ok {
		return nil, fmt.Errorf("%w: it is not valid JSON", ErrInvalid)
	}
	result, err := apply(document, patch)
	if err != nil {
		return nil, err
	}
	if len(result) > MaxSize {
		return nil, ErrTooLarge
	}
	return result, nil
}

func mediaType(contentType string) string {
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return strings.ToLower(strings.TrimSpace(contentType))
	}
	return t
}
