package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/represent"
	"github.com/feedctl/feedctl/layout"
)

// getNewestIndex answers /snapshots/{name} with the newest index, and /snapshots/{name}?at=TIME with the
// newest one whose position in the feed is not later than TIME.
func (s *Server) getNewestIndex(w *responder, r *http.Request) error {
	name, id := r.PathValue("name"), ""
	at, err := parseAt(r)
	switch {
	case err != nil:
		return err
	case at.IsZero():
		id, err = s.reader.NewestSnapshot(r.Context(), name)
	default:
		id, err = s.reader.SnapshotAt(r.Context(), name, at)
		if late, ok := errors.AsType[*feedstore.NoneEarlierError](err); ok {
			return problem.New(http.StatusNotFound, "no-snapshot", "%s", late)
		}
	}
	if err != nil {
		return err
	}
	res := s.index(r, name, id)
	res.location = res.base + layout.SnapshotIndexPath(name, id)
	return s.sender.Send(w, r, res, nil)
}

// parseAt returns the time in the query, or the zero time if there is none.
func parseAt(r *http.Request) (time.Time, error) {
	text := r.URL.Query().Get("at")
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, problem.New(http.StatusBadRequest, "invalid-request", "at=%q is not a time like 2006-01-02T15:04:05Z", text)
	}
	return at, nil
}

// getIndex answers /snapshots/{name}/{id}.
func (s *Server) getIndex(w *responder, r *http.Request) error {
	name, id := r.PathValue("name"), r.PathValue("id")
	if layout.CheckName(name) != nil || layout.CheckName(id) != nil {
		return feedstore.ErrNoSnapshot
	}
	return s.sender.Send(w, r, s.index(r, name, id), nil)
}

func (s *Server) index(r *http.Request, name, id string) *indexResource {
	return &indexResource{server: s, name: name, id: id, key: layout.SnapshotIndex(name, id), base: s.base(r)}
}

// getSnapshotPage answers /snapshots/{name}/{id}/pages/{n}. It does not serve pages
// of a snapshot that is unfinished or deleted.
func (s *Server) getSnapshotPage(w *responder, r *http.Request) error {
	name, id := r.PathValue("name"), r.PathValue("id")
	if layout.CheckName(name) != nil || layout.CheckName(id) != nil {
		return feedstore.ErrNoSnapshot
	}
	n, ok := pageNumber(r.PathValue("n"))
	if !ok || n > feedstore.MaxSnapshotPage {
		return problem.New(http.StatusNotFound, "no-page", "page numbers are decimal integers from 0")
	}
	if err := s.reader.FindSnapshot(r.Context(), name, id); err != nil {
		return err
	}
	return s.sender.Send(w, r, &snapshotPage{server: s, name: name, id: id, number: int(n)}, nil)
}

// A snapshotPage is the resource of one page of a snapshot.
type snapshotPage struct {
	server   *Server
	name, id string // of the snapshot
	number   int
}

// Stat implements [represent.Resource].
func (p *snapshotPage) Stat(ctx context.Context) (*represent.Representation, error) {
	found, err := p.server.reader.StatSnapshotPage(ctx, p.name, p.id, p.number)
	if err != nil {
		return nil, err
	}
	return p.represent(found), nil
}

// Open implements [represent.Resource].
func (p *snapshotPage) Open(ctx context.Context, offset, length int64) (*represent.Representation, io.ReadCloser, error) {
	found, body, err := p.server.reader.OpenSnapshotPage(ctx, p.name, p.id, p.number, offset, length)
	if err != nil {
		return nil, nil, err
	}
	return p.represent(found), body, nil
}

// represent describes the page.
func (p *snapshotPage) represent(found *feedstore.SnapshotPage) *represent.Representation {
	return &represent.Representation{
		ContentType: found.ContentType,
		Tag:         shortDigest(found.SHA256),
		Sum:         found.SHA256,
		Modified:    feed.Truncate(found.Modified),
		Immutable:   true,
		Stored:      found.Size,
		Digest:      func(context.Context) ([]byte, error) { return decodeDigest(found.SHA256), nil },
	}
}
