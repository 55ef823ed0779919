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

// Append implements [storage.Store]. If the existing body is cached, an append sends a single
// PutObject.
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
	if begun := s.bodies.take(key, at); begun != nil {
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
	// The ETag is not newer than the body that came with it, so a write with this condition appends
	// to that body or fails.
	from.etag = r.version.etag
	if begun != nil {
		return s.write(ctx, key, meta, false, &from, content{begun: newCachedBody(key, at, begun), new: tail})
	}
	v, err := s.write(ctx, key, meta, false, &from, content{stored: &storedBody{ctx: ctx, s: s, r: r}, new: tail})
	if errors.Is(err, errChanged) { // the stored body changed while it was being read, so nothing was written
		return "", errVersion
	}
	return v, err
}

var errVersion = fmt.Errorf("%w: another writer changed it", storage.ErrConflict)

// checkWrite makes the checks that are common to all writes, and probes the server before the first
// write.
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

// checkPlain checks, if the given version has no trailer, that the object still has that version.
// Without a trailer, the condition of the write does not suffice, since another state with the same
// bytes may have the same ETag. If the object is deleted, and created again with the same bytes,
// between this check and the write, the new object is replaced.
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

// write replaces the object at the given version with the content, or creates it if at
// is nil.
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
		s.bodies.put(&cachedBody{key: key, version: v, body: u.body, sum: u.state})
	} else {
		s.bodies.drop(key)
	}
	return v, nil
}

// commit sends the upload, repeatedly if necessary, until the outcome is known, and returns the
// object's ETag.
//
// An attempt has an unknown outcome if there is no response, a response from a proxy, or a 409. A
// 412 may be due to this write itself, if a proxy sent it twice. The object is therefore read after
// each of these. If the object has the ID of this write, the write has succeeded. If the condition
// still holds, the write is sent again with the same condition and ID; only one of the attempts can
// take effect. Otherwise there was another write. If an earlier attempt had an unknown outcome, the
// other write may have followed that attempt, and the outcome remains unknown. An attempt whose
// body was not sent completely is known to have failed: a server that rejects a condition may close
// the connection before its response is read.
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

// outcome returns the error for a write whose last attempt had no effect; unknown says whether an
// earlier attempt may have taken effect.
func outcome(err error, unknown bool) error {
	if unknown {
		return unknownOutcome(err)
	}
	return explain(err)
}

// unknownOutcome returns an error that matches no error of package storage.
func unknownOutcome(err error) error {
	return fmt.Errorf("the outcome is unknown, read again: %v", err) //nolint:errorlint // must match no sentinel
}

// put makes one attempt at an upload. If unsure is true, the attempt may have taken effect,
// whatever the error is.
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

// condition returns the values of If-None-Match and If-Match.
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
	s.bodies.drop(key)
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
