package s3

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/storage"
)

const (
	// maxParts and minPart are limits of S3.
	maxParts = 10000
	minPart  = 5 << 20
	// partsAtOnce is the number of parts of an object that are sent concurrently.
	partsAtOnce = 4
	// abortTimeout limits how long a cancelled write waits for an abort.
	abortTimeout = 5 * time.Second
)

// partSize returns the size of the parts of an object, in bytes.
func (s *Store) partSize(size int64) int64 {
	return max(s.config.PartSize, (size+maxParts-1)/maxParts)
}

// putParts makes one attempt at a multipart upload, and aborts it if it fails.
func (s *Store) putParts(ctx context.Context, u *upload, at *version) (etag string, unsure bool, err error) {
	var id *string
	err = s.repeat(ctx, func(opts ...options) error {
		out, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
			Bucket: s.bucket(), Key: s.object(u.key),
			Metadata:             map[string]string{metaName: u.rec.String()},
			ContentType:          orNil(u.meta.ContentType),
			CacheControl:         orNil(u.meta.CacheControl),
			ServerSideEncryption: types.ServerSideEncryption(s.config.SSE),
			SSEKMSKeyId:          orNil(s.config.KMSKeyID),
			StorageClass:         types.StorageClass(s.config.StorageClass),
			ACL:                  types.ObjectCannedACL(s.config.ACL),
		}, opts...)
		if err == nil {
			id = out.UploadId
		}
		return err
	})
	if err != nil {
		return "", false, err
	}
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
			defer cancel()
			s.abortAtWork(ctx, s.object(u.key), id)
		}
	}()
	parts, err := s.sendParts(ctx, u, id)
	if err != nil {
		return "", false, err
	}
	return s.complete(ctx, u, at, id, parts)
}

// abort aborts an upload, which removes its parts.
func (s *Store) abort(ctx context.Context, object, id *string) error {
	return s.repeat(ctx, func(opts ...options) error {
		_, err := s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: s.bucket(), Key: object, UploadId: id}, opts...)
		if codeOf(err) == "NoSuchUpload" {
			return nil
		}
		return err
	})
}

// abortAtWork aborts an upload repeatedly until it no longer exists: a part that the server is
// still storing may survive the first abort. If abortAtWork fails, Sweep removes the rest.
func (s *Store) abortAtWork(ctx context.Context, object, id *string) {
	for attempt := 1; attempt <= s.config.Attempts; attempt++ {
		err := s.abort(ctx, object, id)
		if err == nil {
			_, err = s.client.ListParts(ctx, &s3.ListPartsInput{Bucket: s.bucket(), Key: object, UploadId: id})
		}
		if codeOf(err) == "NoSuchUpload" || s.pause(ctx, attempt, err) != nil {
			return
		}
	}
}

// sendParts sends the parts concurrently if the body can be opened at an offset. Otherwise, it
// reads the body once and sends the parts sequentially.
func (s *Store) sendParts(ctx context.Context, u *upload, id *string) ([]types.CompletedPart, error) {
	done := make([]types.CompletedPart, len(u.parts))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(partsAtOnce)
	open := func(p part) (*source, error) { return openSource(u.object, p.offset, p.size) }
	if !storage.CanOpenFrom(u.object) {
		group.SetLimit(1)
		sequence := &sequence{body: u.object}
		defer sequence.Close()
		open = sequence.open
	}
	for i, p := range u.parts {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			etag, err := s.sendPart(ctx, u, id, int32(i+1), p, open)
			done[i] = types.CompletedPart{ETag: etag, PartNumber: aws.Int32(int32(i + 1))}
			if err != nil {
				return fmt.Errorf("upload part %d of %d: %w", i+1, len(u.parts), err)
			}
			return nil
		})
	}
	return done, group.Wait()
}

func (s *Store) sendPart(ctx context.Context, u *upload, id *string, number int32, p part, open func(part) (*source, error)) (etag *string, err error) {
	err = s.repeat(ctx, func(opts ...options) error {
		body, err := open(p)
		if err != nil {
			return bodyError{err}
		}
		out, err := s.client.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: s.bucket(), Key: s.object(u.key), UploadId: id, PartNumber: &number,
			ContentLength: aws.Int64(p.size), Body: body,
		}, append(opts, hashed(p.sum))...)
		if berr := body.shut(); berr != nil && err != nil {
			return bodyError{berr}
		}
		if err == nil {
			etag = out.ETag
		}
		return err
	})
	return etag, err
}

// complete turns the parts into an object. The request can be retried safely: if an earlier attempt
// succeeded, the upload no longer exists.
func (s *Store) complete(ctx context.Context, u *upload, at *version, id *string, parts []types.CompletedPart) (
	etag string, unsure bool, err error,
) {
	in := &s3.CompleteMultipartUploadInput{
		Bucket: s.bucket(), Key: s.object(u.key), UploadId: id,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	}
	in.IfNoneMatch, in.IfMatch = condition(at)
	for attempt := 1; ; attempt++ {
		err = s.send(ctx, func(opts ...options) error {
			out, err := s.client.CompleteMultipartUpload(ctx, in, opts...)
			if err == nil {
				etag = normalETag(out.ETag)
			}
			return err
		})
		if err == nil {
			return etag, false, nil
		}
		if classify(err) != again {
			return "", unsure, err
		}
		unsure = true
		// After a 409 the upload must start over.
		if ctx.Err() != nil || statusOf(err) == http.StatusConflict || codeOf(err) == "NoSuchUpload" || attempt == s.config.Attempts {
			return "", true, err
		}
		if err := s.pause(ctx, attempt, err); err != nil {
			return "", true, err
		}
	}
}

// A sequence opens consecutive parts of a body that can only be read sequentially.
type sequence struct {
	body storage.Body
	r    io.ReadCloser
	pos  int64
}

func (q *sequence) open(p part) (*source, error) {
	if q.r == nil || q.pos != p.offset {
		q.Close()
		r, err := storage.OpenFrom(q.body, p.offset)
		if err != nil {
			return nil, err
		}
		q.r, q.pos = r, p.offset
	}
	return &source{r: q, left: p.size, open: true}, nil
}

func (q *sequence) Read(p []byte) (int, error) {
	n, err := q.r.Read(p)
	q.pos += int64(n)
	return n, err
}

func (q *sequence) Close() error {
	if q.r == nil {
		return nil
	}
	r := q.r
	q.r = nil
	return r.Close()
}

// Sweep implements [storage.Sweeper]: it aborts unfinished uploads and deletes objects
// that interrupted probes left behind. A writer whose upload is aborted starts over.
func (s *Store) Sweep(ctx context.Context, age time.Duration) (freed int64, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return 0, err
	}
	until, probesUntil := now.Add(-age), now.Add(-max(age, probeAge))
	uploads, err := s.sweepUploads(ctx, until, probesUntil)
	if err != nil {
		return uploads, s.failed("sweep uploads in", "", explain(err))
	}
	probes, err := s.sweepProbes(ctx, probesUntil)
	if err != nil {
		return uploads + probes, s.failed("sweep", privatePrefix, explain(err))
	}
	return uploads + probes, nil
}

// left reports whether an upload or object made at time since was left behind, which is the case if
// since <= until. It compares whole seconds, the precision of the store's clock.
func left(since *time.Time, until time.Time) bool {
	return !utc(since).Truncate(time.Second).After(until)
}

func (s *Store) sweepUploads(ctx context.Context, until, probesUntil time.Time) (freed int64, err error) {
	in := &s3.ListMultipartUploadsInput{Bucket: s.bucket(), Prefix: s.object("")}
	for {
		var out *s3.ListMultipartUploadsOutput
		err := s.repeat(ctx, func(opts ...options) (err error) {
			out, err = s.client.ListMultipartUploads(ctx, in, opts...)
			return err
		})
		if err != nil {
			return freed, err
		}
		for _, upload := range out.Uploads {
			limit := until
			if strings.HasPrefix(aws.ToString(upload.Key), *s.object(triesPrefix)) {
				limit = probesUntil
			}
			if !left(upload.Initiated, limit) {
				continue
			}
			size, err := s.sweepUpload(ctx, upload)
			if err != nil {
				return freed, err
			}
			freed += size
		}
		if !aws.ToBool(out.IsTruncated) {
			return freed, nil
		}
		in.KeyMarker, in.UploadIdMarker = out.NextKeyMarker, out.NextUploadIdMarker
	}
}

// sweepUpload aborts an upload and returns the total size of its parts.
func (s *Store) sweepUpload(ctx context.Context, upload types.MultipartUpload) (size int64, err error) {
	in := &s3.ListPartsInput{Bucket: s.bucket(), Key: upload.Key, UploadId: upload.UploadId}
	for more := true; more; {
		err := s.repeat(ctx, func(opts ...options) error {
			out, err := s.client.ListParts(ctx, in, opts...)
			if codeOf(err) == "NoSuchUpload" { // the upload was completed or aborted meanwhile
				more = false
				return nil
			}
			if err != nil {
				return err
			}
			for _, p := range out.Parts {
				size += aws.ToInt64(p.Size)
			}
			more, in.PartNumberMarker = aws.ToBool(out.IsTruncated), out.NextPartNumberMarker
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return size, s.abort(ctx, upload.Key, upload.UploadId)
}
