package s3

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/feedctl/feedctl/storage"
)

// Create implements [storage.Store].
func (s *Store) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	if err := s.checkWrite(ctx, key, meta); err != nil {
		return "", s.failed("create", key, err)
	}
	v, err := s.write(ctx, key, meta, isPlain(meta), nil, content{new: body})
	if err != nil {
		return "", s.failed("create", key, err)
	}
	return v, nil
}

// Replace implements [storage.Store].
func (s *Store) Replace(ctx context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	v, err := s.replace(ctx, key, at, meta, body)
	if err != nil {
		return "", s.failed("replace", key, err)
	}
	return v, nil
}

func (s *Store) replace(ctx context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	if err := s.checkWrite(ctx, key, meta); err != nil {
		return "", err
	}
	from, err := parseVersion(at)
	if err != nil {
		return "", err
	}
	if err := s.checkPlain(ctx, key, from); err != nil {
		return "", err
	}
	return s.write(ctx, key, meta, false, &from, content{new: body})
}

// Append implements [storage.Store]. What this store wrote or read lately is not
// read again: an append to it is one PutObject.
func (s *Store) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	v, err := s.append(ctx, key, at, meta, tail)
	if err != nil {
		return "", s.failed("append to", key, err)
	}
	return v, nil
}

func (s *Store) append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	if err := s.checkWrite(ctx, key, meta); err != nil {
		return "", err
	}
	from, err := parseVersion(at)
	if err != nil {
		return "", err
	}
	if begun := s.tips.take(key, at); begun != nil {
		return s.write(ctx, key, meta, false, &from, content{begun: begun, new: tail})
	}
	r, begun, err := s.load(ctx, key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return "", fmt.Errorf("%w: it is gone", storage.ErrConflict)
	case err != nil:
		return "", err
	case r.rec.id != from.id:
		return "", errVersion
	}
	// The ETag of this answer is not newer than the body that it came with, so
	// that a write on this condition adds to that body or does not happen.
	from.etag = r.version.etag
	if begun != nil {
		return s.write(ctx, key, meta, false, &from, content{begun: newTip(key, at, begun), new: tail})
	}
	v, err := s.write(ctx, key, meta, false, &from, content{stored: &storedBody{ctx: ctx, s: s, r: r}, new: tail})
	if errors.Is(err, errChanged) { // while it was read, before anything was written
		return "", errVersion
	}
	return v, err
}

var errVersion = fmt.Errorf("%w: someone else wrote it", storage.ErrConflict)

// checkWrite checks what is common to all writes, and the server before the
// first.
func (s *Store) checkWrite(ctx context.Context, key string, meta storage.Meta) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := storage.CheckKey(key); err != nil {
		return err
	}
	if err := storage.CheckMeta(meta); err != nil {
		return err
	}
	return s.probed(ctx)
}

// checkPlain looks whether an object without trailer is at the version. Its ETag
// may be that of another object with the same bytes, so the condition of the
// write is not enough. If in the moment between the two someone deletes the
// object and creates one of the same bytes, that one is replaced.
func (s *Store) checkPlain(ctx context.Context, key string, at version) error {
	if !at.plain {
		return nil
	}
	r, err := s.state(ctx, key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("%w: it is gone", storage.ErrConflict)
	case err == nil && r.rec.id != at.id:
		return errVersion
	}
	return err
}

// write puts the content in the place of what is at the given version, or of
// nothing if that is nil.
func (s *Store) write(ctx context.Context, key string, meta storage.Meta, plain bool, at *version, c content) (storage.Version, error) {
	u, release, err := s.prepare(ctx, key, meta, plain, c)
	if err != nil {
		return "", err
	}
	defer release()
	etag, err := s.commit(ctx, u, at)
	if err != nil {
		return "", err
	}
	v := version{plain: u.rec.trailer == 0, id: u.rec.id, etag: etag}.encode()
	if u.state != nil && u.rec.trailer > 0 && !storage.IsLast(c.new) {
		s.tips.put(&tip{key: key, version: v, body: u.body, sum: u.state})
	} else {
		s.tips.drop(key)
	}
	return v, nil
}

// commit sends the upload until it is known what came of it, and returns the
// object's ETag.
//
// An attempt may have an unknown outcome: no answer, one from a proxy, a 409. And
// a 412 may come from a condition that our own write has broken, sent again by
// something on the way. So after each the object is looked at: if it has the id
// of this write, that has succeeded. If the condition still holds, the write is
// sent again under the same condition with the same id: whichever comes first
// breaks the condition for the others. Else someone else's write is there. It may
// have followed ours, if one of our attempts was unknown: then so is the outcome.
// An attempt whose body was not sent to its end is known to have failed: a server
// that refuses a condition may break the connection before its answer is read.
func (s *Store) commit(ctx context.Context, u *upload, at *version) (etag string, err error) {
	unknown := false
	for attempt := 1; ; attempt++ {
		put := s.put
		if u.parts != nil {
			put = s.putParts
		}
		etag, unsure, err := put(ctx, u, at)
		if err == nil {
			return etag, nil
		}
		unknown = unknown || unsure
		a := classify(err)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case a == refused, a == later && attempt >= s.config.Attempts:
			return "", outcome(err, unknown)
		case a == later:
			if err := s.pause(ctx, attempt, err); err != nil {
				return "", err
			}
			continue
		case a == again:
			unknown = unknown || !isUnsent(err)
			if err := s.pause(ctx, attempt, err); err != nil {
				return "", err
			}
		}
		found, rerr := s.state(ctx, u.key)
		gone := errors.Is(rerr, storage.ErrNotFound)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case rerr != nil && !gone:
			return "", unknownOutcome(errors.Join(err, rerr))
		case found != nil && found.rec.id == u.rec.id:
			return found.version.etag, nil
		case at == nil && gone:
		case at != nil && found != nil && found.rec.id == at.id:
			at.etag = found.version.etag
		case unknown:
			return "", unknownOutcome(err)
		case at == nil:
			return "", storage.ErrExists
		case gone:
			return "", fmt.Errorf("%w: it is gone", storage.ErrConflict)
		default:
			return "", errVersion
		}
		if attempt >= s.config.Attempts {
			return "", outcome(err, unknown)
		}
	}
}

// outcome returns the error of a write that was not done, unless an earlier attempt
// may have been.
func outcome(err error, unknown bool) error {
	if unknown {
		return unknownOutcome(err)
	}
	return explain(err)
}

// unknownOutcome hides which kind of error it was: the store may have changed.
func unknownOutcome(err error) error {
	return fmt.Errorf("the outcome is unknown, read again: %v", err) //nolint:errorlint // it must match no sentinel
}

// put sends an upload once. Unsure says that it may have taken effect, whatever
// the error is.
func (s *Store) put(ctx context.Context, u *upload, at *version) (etag string, unsure bool, err error) {
	in := &s3.PutObjectInput{
		Bucket: s.bucket(), Key: s.object(u.key),
		ContentLength:        aws.Int64(u.object.Size()),
		Metadata:             map[string]string{metaName: u.rec.String()},
		ContentType:          orNil(u.meta.ContentType),
		CacheControl:         orNil(u.meta.CacheControl),
		ServerSideEncryption: types.ServerSideEncryption(s.config.SSE),
		SSEKMSKeyId:          orNil(s.config.KMSKeyID),
		StorageClass:         types.StorageClass(s.config.StorageClass),
		ACL:                  types.ObjectCannedACL(s.config.ACL),
	}
	in.IfNoneMatch, in.IfMatch = condition(at)
	err = s.send(ctx, func(opts ...options) error {
		body, err := openSource(u.object, 0, u.object.Size())
		if err != nil {
			return bodyError{err}
		}
		in.Body = body
		out, err := s.client.PutObject(ctx, in, append(opts, hashed(u.sum))...)
		if berr := body.shut(); berr != nil && err != nil {
			return bodyError{berr}
		}
		if err != nil && body.unsent() {
			return unsentError{err}
		}
		if err != nil {
			return err
		}
		etag = normalETag(out.ETag)
		return nil
	})
	return etag, false, err
}

// condition returns If-None-Match and If-Match.
func condition(at *version) (ifNoneMatch, ifMatch *string) {
	if at == nil {
		return aws.String("*"), nil
	}
	return nil, &at.etag
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Delete implements [storage.Store].
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return s.failed("delete", key, err)
	}
	if err := storage.CheckKey(key); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	s.tips.drop(key)
	if err := s.remove(ctx, key); err != nil {
		return s.failed("delete", key, err)
	}
	return nil
}

func (s *Store) remove(ctx context.Context, key string) error {
	err := s.read(ctx, func(opts ...options) error {
		_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: s.bucket(), Key: s.object(key)}, opts...)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}
