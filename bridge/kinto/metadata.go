package kinto

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/kinto"
)

// A marked is the part of a collection's metadata that has the marker.
type marked struct {
	Feedctl struct {
		Incarnation string `json:"incarnation"`
	} `json:"feedctl"`
}

// metadata is what a position records of the metadata of a collection.
type metadata struct {
	stamp  int64
	marker string
}

// checkMetadata checks that the user may read the collection, and compares its metadata with the
// position's. It returns a reason to reconcile, or "".
func (r *reader) checkMetadata(ctx context.Context) (sign string, err error) {
	c := &r.bridge.config
	meta, err := c.Source.Metadata(ctx)
	if err != nil {
		return "", fmt.Errorf("read the metadata of the collection: %w", err)
	}
	if err := c.Source.CheckRead(ctx); err != nil {
		return "", fmt.Errorf("check the right to read the collection: %w", err)
	}
	var m marked
	if err := json.Unmarshal(meta.Data, &m); err != nil {
		m = marked{} // something else has that name
	}
	marker := m.Feedctl.Incarnation
	known := r.at.Metadata != 0
	switch {
	case r.at.Marker != "" && marker != r.at.Marker:
		sign = "the marker of the collection is missing or different"
	case known && meta.Stamp != r.at.Metadata && marker == "":
		sign = "the metadata of the collection has changed"
	}
	if c.Mark && marker == "" {
		marker = bridge.NewID()
		if meta, err = r.mark(ctx, marker, meta); err != nil {
			return "", err
		}
	}
	if sign != "" { // until all records have been compared, the position keeps the reason
		r.replaced = &metadata{meta.Stamp, marker}
		return sign, nil
	}
	r.at.Metadata, r.at.Marker = meta.Stamp, marker
	return "", nil
}

func (r *reader) mark(ctx context.Context, marker string, meta kinto.Metadata) (kinto.Metadata, error) {
	var m marked
	m.Feedctl.Incarnation = marker
	meta, err := r.bridge.config.Source.PatchMetadata(ctx, m, meta.Stamp)
	if err != nil {
		return meta, fmt.Errorf("mark the collection: %w", err)
	}
	return meta, nil
}

// head returns the stamp and the number of records of the collection. The response to HEAD has no body
// that says what is missing, so after a status of 404 the error is that of a request for the metadata.
func (b *Bridge) head(ctx context.Context) (kinto.Page, error) {
	page, err := b.config.Source.Head(ctx, kinto.Query{})
	if errors.Is(err, kinto.ErrNotFound) {
		if _, missing := b.config.Source.Metadata(ctx); missing != nil {
			err = missing
		}
	}
	return page, err
}
