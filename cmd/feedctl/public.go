package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// publicHelp explains publicFlags.
const publicHelp = `

The snapshot can also be read from a bucket by plain HTTP, without feedctl. Its index then
lists absolute URLs: with --public-url, URLs under the public root of the bucket or of a
CDN; with --presign 24h, presigned URLs that anyone may use for that time. S3 limits it to
168h (7 days) and to the lifetime of temporary credentials. The URL of the index is printed.
"feedctl serve" always serves its own URLs.`

// publicFlags say how a snapshot in a bucket can be read without feedctl.
type publicFlags struct {
	publicURL string
	presign   time.Duration
}

func (f *publicFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.publicURL, "public-url", "", "`URL` under which the store's objects can be read: the index lists URLs below it")
	units.DurationVar(flags, &f.presign, "presign", 0, "the index lists URLs that are valid for this `DURATION` and need no credentials, as 24h")
	c.MarkFlagsMutuallyExclusive("public-url", "presign")
}

func (f *publicFlags) check() error {
	if f.publicURL != "" {
		if u, err := locate.ParseURL(f.publicURL); err != nil {
			return err
		} else if u.RawQuery != "" {
			return exit.Usagef("--public-url %q has a query: URLs are made by appending to it", sink.Redact(f.publicURL))
		}
	}
	if f.presign < 0 || f.presign%time.Second != 0 {
		return exit.Usagef("--presign %v is not a positive number of seconds", f.presign)
	}
	return nil
}

// checkStore finds out, before anything is read or written, whether the store can
// do what is asked for.
func (f *publicFlags) checkStore(ctx context.Context, store storage.Store, name string) error {
	if f.presign == 0 {
		return nil
	}
	presigner, ok := storage.As[storage.Presigner](store)
	if !ok {
		return exit.Usagef("--presign: %w: use one like s3://BUCKET/PREFIX", snapshots.ErrPresign)
	}
	if _, err := presigner.Presign(ctx, layout.SnapshotIndexes(name)+"index", f.presign); err != nil {
		return fmt.Errorf("--presign %v: %w", f.presign, err)
	}
	return nil
}

// indexURL returns where the index of a snapshot can be read; "" if only by feedctl.
func (f *publicFlags) indexURL(ctx context.Context, store storage.Store, name, id string) (string, error) {
	key := layout.SnapshotIndex(name, id)
	if f.publicURL != "" {
		return url.JoinPath(f.publicURL, key)
	}
	if presigner, ok := storage.As[storage.Presigner](store); ok && f.presign > 0 {
		return presigner.Presign(ctx, key, f.presign)
	}
	return "", nil
}
