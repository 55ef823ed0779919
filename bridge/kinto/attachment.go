package kinto

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/kinto"
)

// attachmentSuffix follows the id of a record in the Content-Location of its attachment. No id of a
// record has a "/".
const attachmentSuffix = "/attachment"

func isAttachment(id string) bool { return strings.HasSuffix(id, attachmentSuffix) }

// An attached is the member attachment of a record (kinto-attachment, "API").
type attached struct {
	Hash     string `json:"hash"` // SHA-256 in hex
	Location string `json:"location"`
	MimeType string `json:"mimetype"`
	Size     int64  `json:"size"`
}

// stamp returns a number that identifies the content.
func (a *attached) stamp() (int64, error) {
	sum, err := hex.DecodeString(a.Hash)
	if err != nil || len(sum) != sha256.Size {
		return 0, fmt.Errorf("attachment has no SHA-256: %q", a.Hash)
	}
	return int64(binary.BigEndian.Uint64(sum) >> 1), nil
}

// publishAttachment publishes or removes the attachment of a record, before its entity e. It returns
// false if the record was put into quarantine.
func (s *run) publishAttachment(ctx context.Context, v bridge.Version, e *feed.Entity) (bool, error) {
	var member []byte
	for name, value := range jsonscan.Members(e.Body) {
		if string(name) == `"attachment"` {
			member = value
		}
	}
	if s.bridge.config.Attachments == None {
		if member != nil {
			e.Body = withoutMember(e.Body, `"attachment"`)
		}
		return true, nil
	}
	id := v.ID + attachmentSuffix
	held, err := s.bridge.core.Index.Look(id)
	if err != nil {
		return false, err
	}
	var a attached
	if member == nil || json.Unmarshal(member, &a) != nil || a.Location == "" {
		if held[0].Live {
			err = s.removeOne(ctx, id, v.Rev, held[0])
		}
		return true, err
	}
	stamp, err := a.stamp()
	if err == nil && held[0].Live && held[0].Stamp == stamp {
		return true, nil
	}
	if err == nil {
		err = s.copyAttachment(ctx, bridge.Version{ID: id, Rev: strconv.FormatInt(stamp, 10)}, &a, held[0])
	}
	if failed, ok := errors.AsType[*attachmentError](err); ok {
		return false, s.Reject(ctx, bridge.Quarantined{ID: v.ID, Rev: v.Rev, Reason: failed.Error()})
	}
	return true, err
}

// An attachmentError is a reason to put a record into quarantine.
type attachmentError struct{ err error }

func (e *attachmentError) Error() string { return "attachment: " + e.err.Error() }
func (e *attachmentError) Unwrap() error { return e.err }

// A fileError is an error of the server of attachments. It says nothing about the record or its collection.
type fileError struct{ err error }

func (e *fileError) Error() string { return "copy attachment: " + e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

// errContent means that a file is not the one that the record describes.
var errContent = errors.New("file does not match the record")

// copyAttachment publishes a file, in several attempts if necessary. A file whose content is not what the
// record says may just have been replaced, and is requested once more.
func (s *run) copyAttachment(ctx context.Context, v bridge.Version, a *attached, held bridge.Held) error {
	if limit := s.bridge.config.MaxRecord; limit > 0 && a.Size > limit {
		return &attachmentError{fmt.Errorf("%w of %d bytes: it has %d", bridge.ErrTooLarge, limit, a.Size)}
	}
	retry := s.bridge.core.NewRetry()
	for wrong := 0; ; {
		err := s.streamAttachment(ctx, v, a, held)
		switch _, failed := errors.AsType[*fileError](err); {
		case errors.Is(err, errContent) && wrong == 0:
			wrong++
			err = retry.Wait(ctx)
		case failed:
			err = retry.Again(ctx, err)
		default:
			return err
		}
		if err != nil {
			return err
		}
	}
}

// streamAttachment publishes a file once. The error is a [*fileError], an [*attachmentError] or an error
// of the feed.
func (s *run) streamAttachment(ctx context.Context, v bridge.Version, a *attached, held bridge.Held) error {
	server, index := s.bridge.config.Source.Server(), s.bridge.core.Index
	if s.base == "" {
		root, err := server.Root(ctx)
		if err != nil {
			return &fileError{err}
		}
		if c := root.Capabilities.Attachments; c != nil {
			s.base = c.BaseURL
		}
	}
	body, err := server.Attachment(ctx, s.base, a.Location)
	if err != nil {
		return ofAttachment(err)
	}
	defer body.Close()
	contentType := a.MimeType
	if contentType == "" {
		contentType = "application/octet-stream"
	}
	e := v.Entity(feed.Put, contentType)
	e.ContentID = contentID(e.ContentID, v, held)
	e.Stream, e.Size = &checked{src: body, want: a, sum: sha256.New()}, a.Size
	if err := e.Check(true); err != nil {
		return &attachmentError{err}
	}
	index.Publishing(v.ID, held, bridge.StampOf(v.Rev), true)
	err = s.Add(ctx, e)
	if err != nil {
		index.Unpublished(v.ID, held)
	}
	if broken, ok := errors.AsType[*bridge.StreamError](err); ok {
		return ofAttachment(broken.Err)
	}
	return err
}

// ofAttachment returns an error about a file as an [*attachmentError], or as a [*fileError] if the server
// may yet send the file.
func ofAttachment(err error) error {
	missing := errors.Is(err, kinto.ErrNotFound) || errors.Is(err, kinto.ErrGone)
	if !missing && (kinto.Retryable(err) || kinto.Permanent(err)) {
		return &fileError{err}
	}
	return &attachmentError{err}
}

// A checked is a reader that returns an error at its end if the content is not as described.
type checked struct {
	src  io.Reader
	want *attached
	sum  hash.Hash
	size int64
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.size += int64(n)
	c.sum.Write(p[:n])
	switch {
	case c.size > c.want.Size || err == io.EOF && c.size != c.want.Size:
		return n, fmt.Errorf("%w: it does not have %d bytes", errContent, c.want.Size)
	case err == io.EOF:
		if got := hex.EncodeToString(c.sum.Sum(nil)); !strings.EqualFold(got, c.want.Hash) {
			return n, fmt.Errorf("%w: it has the SHA-256 %s, not %s", errContent, got, c.want.Hash)
		}
	}
	return n, err
}

// withoutMember removes a member from a JSON object, and returns the result, otherwise unchanged.
func withoutMember(object []byte, without string) []byte {
	kept := make([]byte, 0, len(object))
	kept = append(kept, '{')
	for name, value := range jsonscan.Members(object) {
		if string(name) == without {
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(append(append(kept, name...), ':'), value...)
	}
	return append(kept, '}')
}
