package main

import (
	"github.com/spf13/cobra"
)

// publicHelp explains the flags of [task.Public].
const publicHelp = `

The snapshot can also be read from a bucket by plain HTTP, without feedctl. Its index then
lists absolute URLs: with --public-url, URLs under the public root of the bucket or of a
CDN; with --presign 24h, presigned URLs that anyone may use for that time. S3 limits it to
168h (7 days) and to the lifetime of temporary credentials. The URL of the index is printed.
"feedctl serve" always serves its own URLs.`

// excludePublic makes the flags of [task.Public] mutually exclusive.
func excludePublic(c *cobra.Command) { c.MarkFlagsMutuallyExclusive("public-url", "presign") }
