package reconcile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/feed"
)

// fetch reads the page of the feed with the entity that the sink must have, and returns the entity, or nil if
// the page does not contain it.
func (r *run) fetch(ctx context.Context, w want) (found *feed.Entity, err error) {
	if w.page == "" || w.state != put {
		return nil, nil
	}
	err = r.Client.EntityAt(ctx, r.URL, w.page, w.offset, func(e *consumer.Entity) (err error) {
		found, err = r.matching(w, e)
		return err
	})
	switch _, isPage := errors.AsType[*consumer.PageError](err); {
	case isGone(err), isPage: // pruned, or not the page that the digest was made from
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read key %q from page %s: %w", w.key, w.page, err)
	}
	return found, nil
}

// isGone reports whether err means that a page does not exist.
func isGone(err error) bool {
	status, ok := errors.AsType[*consumer.StatusError](err)
	return errors.Is(err, consumer.ErrNotFound) || ok && (status.StatusCode == http.StatusNotFound || status.StatusCode == http.StatusGone)
}

// matching returns a copy of e if e has the sum in w, and nil otherwise. The stream of the copy is a
// temporary file.
func (r *run) matching(w want, e *consumer.Entity) (*feed.Entity, error) {
	copied := e.Entity
	copied.Operation, copied.ContentLocation = feed.Put, feed.EncodeKey(w.key)
	copied.Header = append([]feed.Field(nil), e.Header...)
	var sum digest.Summer
	sum.Begin(w.key, e.ContentType)
	if e.Stream == nil {
		_, _ = sum.Write(e.Body) // returns no error
		copied.Body = bytes.Clone(e.Body)
		if sum.Sum() != w.sum {
			return nil, nil
		}
		return &copied, nil
	}
	file, err := os.CreateTemp("", ".feedctl-body-*")
	if err != nil {
		return nil, err
	}
	copied.Stream, copied.Size = file, 0
	if err = os.Remove(file.Name()); err == nil {
		copied.Size, err = io.Copy(io.MultiWriter(file, &sum), e.Stream)
	}
	if err != nil || sum.Sum() != w.sum {
		return nil, errors.Join(err, file.Close())
	}
	return &copied, nil
}

// rewind rewinds the stream of an entity, if it is a temporary file.
func rewind(e *feed.Entity) error {
	if file, ok := e.Stream.(*os.File); ok {
		_, err := file.Seek(0, io.SeekStart)
		return err
	}
	return nil
}

// closeAll removes the temporary files of changes.
func closeAll(batch []change) {
	for _, c := range batch {
		if file, ok := c.entity.Stream.(*os.File); ok {
			_ = file.Close() // it was only read
		}
	}
}

// A snapshotSearch finds entities in the snapshot of the digest, which holds them in the order of their keys.
type snapshotSearch struct {
	*run
	pages int            // -1: unknown
	first map[int]string // first keys of pages that were read
}

func newSnapshotSearch(r *run) *snapshotSearch {
	return &snapshotSearch{run: r, pages: -1, first: make(map[int]string)}
}

// find returns the entity that the sink must have, or nil if the snapshot does not have it.
func (s *snapshotSearch) find(ctx context.Context, w want) (*feed.Entity, error) {
	if s.Digest.Root.Snapshot == "" || w.state != put {
		return nil, nil
	}
	if s.pages < 0 {
		index, err := s.Client.Index(ctx, s.Digest.Root.Snapshot)
		if isGone(err) {
			s.pages = 0
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		s.pages = len(index.Pages)
	}
	var failed error
	n := sort.Search(s.pages, func(i int) bool { // the first page after that of the key
		key, err := s.firstKey(ctx, i)
		failed = errors.Join(failed, err)
		return key > w.key
	})
	if failed != nil || n == 0 {
		return nil, failed
	}
	for e, err := range s.from(ctx, n-1) {
		if err != nil {
			return nil, err
		}
		key, err := s.keyOf(e)
		if err != nil || key > w.key {
			return nil, err
		}
		if key == w.key {
			return s.matching(w, e)
		}
	}
	return nil, nil
}

func (s *snapshotSearch) firstKey(ctx context.Context, page int) (string, error) {
	if key, ok := s.first[page]; ok {
		return key, nil
	}
	for e, err := range s.from(ctx, page) {
		if err != nil {
			return "", err
		}
		key, err := s.keyOf(e)
		s.first[page] = key
		return key, err
	}
	return "", nil
}

func (s *snapshotSearch) from(ctx context.Context, page int) func(func(*consumer.Entity, error) bool) {
	return s.Client.Snapshot(ctx, s.Digest.Root.Snapshot, feed.SnapshotPosition{Page: page})
}
