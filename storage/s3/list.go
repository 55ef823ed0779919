package s3

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/feedctl/feedctl/storage"
)

// List implements [storage.Store]. What is no key is passed over: the driver's own
// objects, and what others have put there. [storage.Entry.Size] is that of the
// object, which is a little more than that of the body.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		fail := func(err error) { yield(storage.Entry{}, s.failed("list", prefix, err)) }
		if err := storage.CheckPrefix(prefix); err != nil {
			fail(err)
			return
		}
		in := &s3.ListObjectsV2Input{Bucket: s.bucket(), Prefix: s.object(prefix)}
		if after != "" {
			in.StartAfter = s.object(after)
		}
		last := ""
		for {
			var out *s3.ListObjectsV2Output
			err := s.read(ctx, func(opts ...options) (err error) {
				out, err = s.client.ListObjectsV2(ctx, in, opts...)
				return err
			})
			if err != nil {
				fail(err)
				return
			}
			for _, o := range out.Contents {
				if err := ctx.Err(); err != nil {
					fail(err)
					return
				}
				key := strings.TrimPrefix(aws.ToString(o.Key), *s.object(""))
				if storage.CheckKey(key) != nil || key <= after {
					continue
				}
				if key <= last {
					fail(fmt.Errorf("the server lists %s after %s, not in the order of bytes: it cannot be used", key, last))
					return
				}
				last = key
				if !yield(storage.Entry{Key: key, Size: aws.ToInt64(o.Size), Modified: utc(o.LastModified)}, nil) {
					return
				}
			}
			if !aws.ToBool(out.IsTruncated) {
				return
			}
			in.ContinuationToken = out.NextContinuationToken
		}
	}
}
