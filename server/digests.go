package server

import (
	"context"
	"io"
	"net/http"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/represent"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// getNewestDigest answers /digests/{feed}.
func (s *Server) getNewestDigest(w *responder, r *http.Request) error {
	name := r.PathValue("feed")
	id, err := s.reader.NewestDigest(r.Context(), name)
	if err != nil {
		return err
	}
	location := s.base(r) + layout.DigestRootPath(name, id)
	return s.sender.Send(w, r, &digestPart{server: s, part: feedstore.DigestPart{Feed: name, ID: id}, location: location}, nil)
}

// getDigest answers /digests/{feed}/{id}.
func (s *Server) getDigest(w *responder, r *http.Request) error {
	name, id := r.PathValue("feed"), r.PathValue("id")
	if layout.CheckName(name) != nil || layout.CheckName(id) != nil {
		return feedstore.ErrNoDigest
	}
	return s.sender.Send(w, r, &digestPart{server: s, part: feedstore.DigestPart{Feed: name, ID: id}}, nil)
}

// getDigestNode answers /digests/{feed}/nodes/{hash}.
func (s *Server) getDigestNode(w *responder, r *http.Request) error {
	name := r.PathValue("feed")
	hash, err := digest.ParseHash(r.PathValue("hash"))
	if err != nil || layout.CheckName(name) != nil {
		return feedstore.ErrNoDigest
	}
	return s.sender.Send(w, r, &digestPart{server: s, part: feedstore.DigestPart{Feed: name, Name: hash}}, nil)
}

// A digestPart is the resource of a root, node or leaf of a state digest. It is served as stored.
type digestPart struct {
	server   *Server
	part     feedstore.DigestPart
	location string // of the root, if it was requested as the newest
}

// Stat implements [represent.Resource].
func (d *digestPart) Stat(ctx context.Context) (*represent.Representation, error) {
	info, sum, err := d.server.reader.StatDigest(ctx, d.part)
	if err != nil {
		return nil, err
	}
	return d.represent(info, sum), nil
}

// Open implements [represent.Resource].
func (d *digestPart) Open(ctx context.Context, offset, length int64) (*represent.Representation, io.ReadCloser, error) {
	info, sum, body, err := d.server.reader.OpenDigest(ctx, d.part, offset, length)
	if err != nil {
		return nil, nil, err
	}
	return d.represent(info, sum), body, nil
}

func (d *digestPart) represent(info storage.Info, sum string) *represent.Representation {
	return &represent.Representation{
		ContentType: digest.MediaType,
		Tag:         shortDigest(sum),
		Sum:         sum,
		Modified:    feed.Truncate(info.Modified),
		Immutable:   d.location == "",
		Hosted:      d.location != "" && d.server.publicURL == "",
		Location:    d.location,
		Stored:      info.Size,
		Digest:      func(context.Context) ([]byte, error) { return decodeDigest(sum), nil },
	}
}
