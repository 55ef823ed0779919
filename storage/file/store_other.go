//go:build !unix

package file

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"

	"github.com/feedctl/feedctl/storage"
)

// A Store is a directory. It is not supported on this system: [Open], [Create] and
// [New] return an error that matches [errors.ErrUnsupported].
type Store struct{ storage.Store }

// Open returns an error; see [Store].
func Open(_ context.Context, u *url.URL) (storage.Store, error) {
	dir, err := ParseURL(u)
	if err != nil {
		return nil, err
	}
	return nil, unsupported(dir)
}

// Create returns an error; see [Store].
func Create(ctx context.Context, u *url.URL) (storage.Store, error) { return Open(ctx, u) }

// New returns an error; see [Store].
func New(dir string) (*Store, error) { return nil, unsupported(dir) }

func unsupported(dir string) error {
	return fmt.Errorf("open store %s: %w: a directory on %s cannot make renames durable: use a store in S3 or PostgreSQL",
		dir, errors.ErrUnsupported, runtime.GOOS)
}
