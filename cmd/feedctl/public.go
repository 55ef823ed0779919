package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/units"
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
type publicFlags struct{ snapshots.Config }

func (f *publicFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.PublicURL, "public-url", "", "`URL` under which the store's objects can be read: the index lists URLs below it")
	units.DurationVar(flags, &f.Presign, "presign", 0, "the index lists URLs that are valid for this `DURATION` and need no credentials, as 24h")
	c.MarkFlagsMutuallyExclusive("public-url", "presign")
}

func (f *publicFlags) check() error {
	if f.PublicURL != "" {
		if u, err := locate.ParseURL(f.PublicURL); err != nil {
			return err
		} else if u.RawQuery != "" {
			return exit.Usagef("--public-url %q has a query: URLs are made by appending to it", sink.Redact(f.PublicURL))
		}
	}
	if f.Presign < 0 || f.Presign%time.Second != 0 {
		return exit.Usagef("--presign %v is not a positive number of seconds", f.Presign)
	}
	return nil
}

// checkStore checks, before anything is read or written, that the store can presign.
func (f *publicFlags) checkStore(ctx context.Context, store storage.Store, name string) error {
	switch _, err := f.IndexURL(ctx, store, name, "index"); {
	case errors.Is(err, snapshots.ErrPresign):
		return exit.Usagef("--presign: %w: use one like s3://BUCKET/PREFIX", err)
	case err != nil:
		return fmt.Errorf("--presign %v: %w", f.Presign, err)
	}
	return nil
}
