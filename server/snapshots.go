package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
)

// maxSnapshots is how many snapshots are remembered to exist.
const maxSnapshots = 1024

// maxSnapshotPage is the highest number that a key has room for.
const maxSnapshotPage = 999_999

var errNoSnapshot = newProblem(http.StatusNotFound, "no-snapshot", "there is no such snapshot")

// newestSnapshot returns the id of the newest snapshot with this name. What is among the
// indexes and is none is somebody else's.
func (s *Server) newestSnapshot(ctx context.Context, name string) (string, error) {
	if layout.CheckName(name) != nil {
		return "", errNoSnapshot
	}
	newest := ""
	for entry, err := range s.store.List(ctx, layout.SnapshotIndexes(name), "") {
		if err != nil {
			return "", fmt.Errorf("list snapshots %q: %w", name, err)
		}
		if id, err := layout.ParseSnapshotIndex(name, entry.Key); err == nil {
			newest = id
		}
	}
	if newest == "" {
		return "", errNoSnapshot
	}
	return newest, nil
}

// getNewestIndex answers /snapshots/{name}.
func (s *Server) getNewestIndex(w *responder, r *http.Request) error {
	name := pathValue(r, "name")
	id, err := s.newestSnapshot(r.Context(), name)
	if err != nil {
		return err
	}
	res := s.index(r, name, id)
	res.location = res.base + layout.SnapshotIndexPath(name, id)
	return s.serve(w, r, res, nil)
}

// getIndex answers /snapshots/{name}/{id}.
func (s *Server) getIndex(w *responder, r *http.Request) error {
	name, id := pathValue(r, "name"), pathValue(r, "id")
	if layout.CheckName(name) != nil || layout.CheckName(id) != nil {
		return errNoSnapshot
	}
	return s.serve(w, r, s.index(r, name, id), nil)
}

func (s *Server) index(r *http.Request, name, id string) *indexResource {
	return &indexResource{server: s, name: name, id: id, key: layout.SnapshotIndex(name, id), base: s.base(r)}
}

// getSnapshotPage answers /snapshots/{name}/{id}/pages/{n}. The pages of a
// snapshot that is not finished, or was deleted, do not exist.
func (s *Server) getSnapshotPage(w *responder, r *http.Request) error {
	name, id := pathValue(r, "name"), pathValue(r, "id")
	if layout.CheckName(name) != nil || layout.CheckName(id) != nil {
		return errNoSnapshot
	}
	n, ok := pageNumber(pathValue(r, "n"))
	if !ok || n > maxSnapshotPage {
		return newProblem(http.StatusNotFound, "no-page", "page numbers are 0, 1, 2 and so on")
	}
	index := layout.SnapshotIndex(name, id)
	if _, known := s.finished.get(index); !known {
		if _, err := s.store.Stat(r.Context(), index); errors.Is(err, storage.ErrNotFound) {
			return errNoSnapshot
		} else if err != nil {
			return fmt.Errorf("look for snapshot: %w", err)
		}
		s.finished.add(index, struct{}{}, 1)
	}
	return s.serve(w, r, &snapshotPage{server: s, id: id, number: int(n), key: layout.SnapshotPage(name, id, int(n))}, nil)
}

// A snapshotPage is the resource of one page of a snapshot.
type snapshotPage struct {
	server *Server
	id     string // of the snapshot
	number int
	key    string
}

// stat implements resource.
func (p *snapshotPage) stat(ctx context.Context) (*representation, error) {
	info, err := p.server.store.Stat(ctx, p.key)
	if err != nil {
		return nil, explainPage(err)
	}
	return p.represent(info)
}

// open implements resource.
func (p *snapshotPage) open(ctx context.Context, offset, length int64) (*representation, io.ReadCloser, error) {
	object, err := p.server.store.Get(ctx, p.key, offset, length)
	if err != nil {
		return nil, nil, explainPage(err)
	}
	rep, err := p.represent(object.Info)
	if err != nil {
		return nil, nil, errors.Join(err, object.Body.Close())
	}
	if offset > 0 || length >= 0 {
		return rep, object.Body, nil
	}
	body, err := p.server.integrity.whole(ctx, object, rep.sum)
	if err != nil {
		return nil, nil, err
	}
	return rep, body, nil
}

func explainPage(err error) error {
	if errors.Is(err, storage.ErrNotFound) {
		return newProblem(http.StatusNotFound, "no-page", "the snapshot has no such page")
	}
	return fmt.Errorf("read page of snapshot: %w", err)
}

// represent describes the page.
func (p *snapshotPage) represent(info storage.Info) (*representation, error) {
	meta, err := snapshot.DecodePage(p.id, p.number, info.Meta.Data)
	digest := decodeDigest(meta.SHA256)
	if err == nil && digest == nil {
		err = fmt.Errorf("%w: %q is not a SHA-256", snapshot.ErrMetadata, meta.SHA256)
	}
	if err != nil {
		return nil, p.server.integrity.corrupted(info.Key, err)
	}
	contentType := info.Meta.ContentType
	if meta.Boundary != "" {
		contentType = page.ContentType(meta.Boundary)
	}
	return &representation{
		sum:         meta.SHA256,
		contentType: contentType,
		tag:         shortDigest(meta.SHA256),
		modified:    feed.Truncate(info.Modified),
		immutable:   true,
		stored:      info.Size,
		digest:      func(context.Context) ([]byte, error) { return digest, nil },
	}, nil
}
