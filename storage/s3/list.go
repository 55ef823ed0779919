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

// List implements [storage.Store]. It skips objects whose names are not keys, such as
// the driver's own. [storage.Entry.Size] is the size of the stored object, which is slightly larger
// than the body.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		if err := storage.CheckPrefix(prefix); err != nil {
			yield(storage.Entry{}, s.failed("list", prefix, err))
			return
		}
		last := ""
		for out, err := range s.listings(ctx, prefix, after, "") {
			if err != nil {
				yield(storage.Entry{}, err)
				return
			}
			for _, o := range out.Contents {
				if err := ctx.Err(); err != nil {
					yield(storage.Entry{}, s.failed("list", prefix, err))
					return
				}
				key := s.key(o.Key)
				if storage.CheckKey(key) != nil || key <= after {
					continue
				}
				if key <= last {
					yield(storage.Entry{}, s.failed("list", prefix, unordered(key, last)))
					return
				}
				last = key
				if !yield(storage.Entry{Key: key, Size: aws.ToInt64(o.Size), Modified: utc(o.LastModified)}, nil) {
					return
				}
			}
		}
	}
}

// Names implements [storage.Namer] by listing with the delimiter "/".
func (s *Store) Names(ctx context.Context, prefix, after string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := storage.CheckNames(prefix); err != nil {
			yield("", s.failed("list", prefix, err))
			return
		}
		start, last := storage.AfterName(prefix, after), ""
		for out, err := range s.listings(ctx, prefix, start, "/") {
			if err != nil {
				yield("", err)
				return
			}
			for _, p := range out.CommonPrefixes {
				key := s.key(p.Prefix)
				if storage.CheckPrefix(key) != nil || key <= start {
					continue
				}
				if key <= last {
					yield("", s.failed("list", prefix, unordered(key, last)))
					return
				}
				last = key
				if name, ok := storage.NameIn(prefix, key); ok && !yield(name, nil) {
					return
				}
			}
		}
	}
}

// listings yields the responses of a paginated listing.
func (s *Store) listings(ctx context.Context, prefix, after, delimiter string) iter.Seq2[*s3.ListObjectsV2Output, error] {
	return func(yield func(*s3.ListObjectsV2Output, error) bool) {
		in := &s3.ListObjectsV2Input{Bucket: s.bucket(), Prefix: s.object(prefix)}
		if after != "" {
			in.StartAfter = s.object(after)
		}
		if delimiter != "" {
			in.Delimiter = &delimiter
		}
		for {
			var out *s3.ListObjectsV2Output
			err := s.read(ctx, func(opts ...options) (err error) {
				out, err = s.client.ListObjectsV2(ctx, in, opts...)
				return err
			})
			if err != nil {
				yield(nil, s.failed("list", prefix, err))
				return
			}
			if !yield(out, nil) || !aws.ToBool(out.IsTruncated) {
				return
			}
			in.ContinuationToken = out.NextContinuationToken
		}
	}
}

func (s *Store) key(object *string) string {
	return strings.TrimPrefix(aws.ToString(object), *s.object(""))
}

func unordered(key, last string) error {
	return fmt.Errorf("unusable server: it lists %s after %s, not in byte order", key, last)
}
