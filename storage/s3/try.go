package s3

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/feedctl/feedctl/storage"
)

// A try tests the behaviour of the server with scratch objects.
type try struct {
	ctx    context.Context
	s      *Store
	mu     sync.Mutex
	keys   []string
	checks []storage.Check
}

// tryOut runs all checks. An error means that a check could not be run.
func (s *Store) tryOut(ctx context.Context) (checks []storage.Check, err error) {
	t := &try{ctx: ctx, s: s}
	defer func() {
		if cerr := t.clean(); err == nil && cerr != nil {
			err = fmt.Errorf("delete what the probe wrote: %w", cerr)
		}
	}()
	for _, check := range []func() error{t.create, t.replace, t.absent, t.race, t.multipart} {
		if err := check(); errors.Is(err, errNoConditions) {
			return t.checks, nil // nothing more can be tried
		} else if err != nil {
			return t.checks, explain(err)
		}
	}
	return t.checks, nil
}

// errNoConditions means that the server rejects conditional requests.
var errNoConditions = errors.New("the server does not support conditional writes")

func (t *try) note(name string, ok bool, detail string, args ...any) {
	c := storage.Check{Name: name, OK: ok, Detail: "as expected"}
	if !ok {
		c.Detail = fmt.Sprintf(detail, args...)
	}
	t.checks = append(t.checks, c)
}

// key returns the key of a scratch object that does not exist yet.
func (t *try) key() string {
	key := triesPrefix + rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keys = append(t.keys, key)
	return key
}

// clean deletes the scratch objects. If permission to delete them is missing, they are left for
// Sweep.
func (t *try) clean() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), cleanTimeout)
	defer cancel()
	var first error
	for _, key := range t.keys {
		if err := t.s.remove(ctx, key); err != nil && first == nil && !errors.Is(err, storage.ErrPermission) {
			first = err
		}
	}
	return first
}

// input returns a request to write an object, with the options that a bucket policy may
// require. It uses the default storage class, since others charge for a minimum duration.
func (t *try) input(key string) *s3.PutObjectInput {
	c := t.s.config
	return &s3.PutObjectInput{
		Bucket: t.s.bucket(), Key: t.s.object(key),
		ServerSideEncryption: types.ServerSideEncryption(c.SSE), SSEKMSKeyId: orNil(c.KMSKeyID), ACL: types.ObjectCannedACL(c.ACL),
	}
}

// put writes an object and reports whether the condition held. If one attempt takes effect, the
// condition may not hold for the next; the caller notices that, since the object has no other
// writer. If the server rejects conditional writes, put adds a failed check.
func (t *try) put(key, body string, metadata map[string]string, at *version) (held bool, err error) {
	in := t.input(key)
	in.Metadata = metadata
	in.IfNoneMatch, in.IfMatch = condition(at)
	err = t.s.repeat(t.ctx, func(opts ...options) error {
		in.Body = strings.NewReader(body)
		_, err := t.s.client.PutObject(t.ctx, in, opts...)
		return err
	})
	if a := classify(err); err != nil && (a == preconditionFailed || a == missing) {
		return false, nil
	}
	if notDone(err) && t.plain(in, body) == nil {
		t.note("conditional writes are supported", false, "PutObject was rejected with a condition, and accepted without: %v", err)
		return false, errNoConditions
	}
	return err == nil, err
}

// notDone reports whether the server may have rejected a request because it does not support one of
// the headers.
func notDone(err error) bool {
	return statusOf(err) == http.StatusNotImplemented ||
		statusOf(err) == http.StatusBadRequest && classify(err) == refused && !expired(err)
}

// plain writes an object with the settings of in, but without a condition.
func (t *try) plain(in *s3.PutObjectInput, body string) error {
	other := *in
	other.Key, other.IfNoneMatch, other.IfMatch = t.s.object(t.key()), nil, nil
	return t.s.repeat(t.ctx, func(opts ...options) error {
		other.Body = strings.NewReader(body)
		_, err := t.s.client.PutObject(t.ctx, &other, opts...)
		return err
	})
}

// get reads an object; the body is empty if the object does not exist. If good returns false, the
// object is read again, since it may have been damaged in transit.
func (t *try) get(key string, good func(body string, metadata map[string]string) bool) (body string, metadata map[string]string, etag string, err error) {
	for range maxDamaged {
		err = t.s.repeat(t.ctx, func(opts ...options) error {
			out, err := t.s.client.GetObject(t.ctx, &s3.GetObjectInput{Bucket: t.s.bucket(), Key: t.s.object(key)}, opts...)
			if err != nil {
				return err
			}
			defer out.Body.Close()
			b, err := io.ReadAll(out.Body)
			body, metadata, etag = string(b), out.Metadata, normalETag(out.ETag)
			return err
		})
		if err != nil && classify(err) == missing {
			body, metadata, err = "", nil, nil
		}
		if err != nil || good(body, metadata) {
			break
		}
	}
	return body, metadata, etag, err
}

// is returns a function that reports whether an object has the given body.
func is(want string) func(string, map[string]string) bool {
	return func(body string, _ map[string]string) bool { return body == want }
}

// create creates an object twice.
func (t *try) create() error {
	key := t.key()
	// The value is as long as the longest record, and has all characters that records may have.
	value := strings.Repeat("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.", 29)
	_, err := t.put(key, "first", map[string]string{metaName: value}, nil)
	tooLarge := codeOf(err) == "MetadataTooLarge"
	if tooLarge {
		_, err = t.put(key, "first", nil, nil)
	}
	if err != nil {
		return err
	}
	body, metadata, _, err := t.get(key, func(body string, metadata map[string]string) bool {
		return body == "first" && (tooLarge || metadata[metaName] == value)
	})
	if err != nil {
		return err
	}
	t.note("a read returns the last write", body == "first", "GetObject after PutObject returned %q", body)
	detail := fmt.Sprintf("%d bytes were returned as %q", len(value), metadata[metaName])
	if tooLarge {
		detail = fmt.Sprintf("%d bytes were rejected as MetadataTooLarge", len(value))
	}
	t.note("metadata of nearly 2 KB is kept", metadata[metaName] == value, "%s", detail)
	held, err := t.put(key, "second", nil, nil)
	if err != nil {
		return err
	}
	body, _, _, err = t.get(key, is("first"))
	t.note("If-None-Match: * protects an existing object", !held && body == "first",
		"the second PutObject with it succeeded, and the object is %q", body)
	return err
}

// replace replaces an object at its current version, and then tries to replace it at the previous
// version.
func (t *try) replace() error {
	key := t.key()
	if _, err := t.put(key, "first", nil, nil); err != nil {
		return err
	}
	_, _, etag, err := t.get(key, is("first"))
	if err != nil {
		return err
	}
	at := version{etag: etag}
	if _, err := t.put(key, "second", nil, &at); err != nil {
		return err
	}
	body, _, _, err := t.get(key, is("second"))
	if err != nil {
		return err
	}
	t.note("If-Match replaces the given version", body == "second", "the object is then %q", body)
	held, err := t.put(key, "third", nil, &at)
	if err != nil {
		return err
	}
	body, _, _, err = t.get(key, is("second"))
	t.note("If-Match protects another version", !held && body == "second",
		"PutObject with the ETag of the previous version succeeded, and the object is %q", body)
	return err
}

// absent tries to replace an object that does not exist.
func (t *try) absent() error {
	key := t.key()
	held, err := t.put(key, "first", nil, &version{etag: `"00000000000000000000000000000000"`})
	if err != nil {
		return err
	}
	body, _, _, err := t.get(key, is(""))
	t.note("If-Match does not create an object", !held && body == "", "PutObject with it created the object")
	return err
}

// race creates an object several times concurrently.
func (t *try) race() error {
	key := t.key()
	var winners, unknown atomic.Int32
	var all sync.WaitGroup
	for i := range creators {
		all.Go(func() {
			err := t.s.send(t.ctx, func(opts ...options) error {
				in := t.input(key)
				in.IfNoneMatch, in.Body = aws.String("*"), strings.NewReader(fmt.Sprint(i))
				_, err := t.s.client.PutObject(t.ctx, in, opts...)
				return err
			})
			switch {
			case err == nil:
				winners.Add(1)
			case classify(err) != preconditionFailed:
				unknown.Add(1)
			}
		})
	}
	all.Wait()
	body, _, _, err := t.get(key, func(body string, _ map[string]string) bool { return len(body) == 1 })
	n := winners.Load()
	// A proxy may have sent again a request that succeeded, and received a 412.
	t.note("one of several concurrent creates succeeds", n == 1 || n == 0 && (unknown.Load() > 0 || body != ""),
		"%d of %d PutObject with If-None-Match: * succeeded, and the object is %q", n, creators, body)
	return err
}

// multipart tries to complete multipart uploads under conditions that do not hold.
func (t *try) multipart() error {
	key := t.key()
	if _, err := t.put(key, "first", nil, nil); err != nil {
		return err
	}
	for name, at := range map[string]*version{
		"If-None-Match: *": nil,
		"If-Match":         {etag: `"00000000000000000000000000000000"`},
	} {
		held, err := t.upload(key, at)
		if errors.Is(err, errNoConditions) {
			t.note(name+" applies to multipart uploads", false, "%v", err)
			continue
		}
		if err != nil {
			return err
		}
		body, _, _, err := t.get(key, is("first"))
		if err != nil {
			return err
		}
		t.note(name+" applies to multipart uploads", !held && body == "first",
			"CompleteMultipartUpload succeeded although the condition does not hold, and the object is %q", body)
	}
	return nil
}

// upload uploads an object in one part and reports whether the condition held. If the server
// responds that another write is in progress, or no longer knows the upload, the upload starts over,
// as S3's documentation of CompleteMultipartUpload demands ("ConditionalRequestConflict").
func (t *try) upload(key string, at *version) (held bool, err error) {
	for attempt := 1; ; attempt++ {
		held, err = t.uploadOnce(key, at)
		if mustStartOver := statusOf(err) == http.StatusConflict || codeOf(err) == "NoSuchUpload"; !mustStartOver || attempt == t.s.config.Attempts {
			return held, err
		}
		if err := t.s.pause(t.ctx, attempt, err); err != nil {
			return false, err
		}
	}
}

func (t *try) uploadOnce(key string, at *version) (held bool, err error) {
	var id *string
	as := t.input(key)
	err = t.s.repeat(t.ctx, func(opts ...options) error {
		out, err := t.s.client.CreateMultipartUpload(t.ctx, &s3.CreateMultipartUploadInput{
			Bucket: as.Bucket, Key: as.Key, ServerSideEncryption: as.ServerSideEncryption, SSEKMSKeyId: as.SSEKMSKeyId, ACL: as.ACL,
		}, opts...)
		if err == nil {
			id = out.UploadId
		}
		return err
	})
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), abortTimeout)
		defer cancel()
		_ = t.s.abort(ctx, t.s.object(key), id) // if this fails, Sweep aborts the upload
	}()
	data := []byte("parts")
	sum := sha256.Sum256(data)
	u := &upload{key: key, object: storage.Bytes(data), parts: []part{{size: int64(len(data)), sum: hex.EncodeToString(sum[:])}}}
	parts, err := t.s.sendParts(t.ctx, u, id)
	if err != nil {
		return false, err
	}
	_, _, err = t.s.complete(t.ctx, u, at, id, parts)
	if notDone(err) {
		return false, fmt.Errorf("%w: %w", errNoConditions, err)
	}
	if a := classify(err); err != nil && a != preconditionFailed && a != missing {
		return false, err
	}
	return err == nil, nil
}
