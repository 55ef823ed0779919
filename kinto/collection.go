package kinto

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"
)

// A Collection is a collection of records. Its methods may be called concurrently.
type Collection struct {
	server       *Server
	bucket, name string
	path         string // below the server's URL
}

// Server returns the server of the collection.
func (c *Collection) Server() *Server { return c.server }

// Bucket returns the id of the bucket.
func (c *Collection) Bucket() string { return c.bucket }

// Name returns the id of the collection.
func (c *Collection) Name() string { return c.name }

// URL returns the URL of the collection, without credentials.
func (c *Collection) URL() string { return c.server.root + c.path }

// Path returns the path of a record relative to the server's URL, for [Request] and [BatchRequest]. If
// id is empty, it returns the path of the collection itself.
func (c *Collection) Path(id string) string {
	if id == "" {
		return c.path
	}
	return c.path + "/records/" + url.PathEscape(id)
}

// Metadata is the object of a collection itself, without its records.
type Metadata struct {
	Data  json.RawMessage // as the server sent it
	Stamp int64           // the stamp of the object, not of the records
}

// A resource is the response to a request for one object.
type resource struct {
	Data json.RawMessage `json:"data"`
}

// Metadata returns the object of the collection. A user who can read it may be unable to read all
// records: see [Collection.CheckRead]. The error matches [ErrNotFound] if there is no such collection.
func (c *Collection) Metadata(ctx context.Context) (Metadata, error) {
	return c.metadata(ctx, Request{Path: c.path})
}

// PatchMetadata merges a JSON object into the object of the collection (RFC 7396) and returns the
// result. The object must have the stamp ifMatch, unless that is 0.
func (c *Collection) PatchMetadata(ctx context.Context, patch any, ifMatch int64) (Metadata, error) {
	body, err := json.Marshal(map[string]any{"data": patch})
	if err != nil {
		return Metadata{}, err
	}
	q := Request{Method: http.MethodPatch, Path: c.path, Body: body, Header: Condition{IfMatch: ifMatch}.header()}
	q.Header.Set("Content-Type", "application/merge-patch+json")
	return c.metadata(ctx, q)
}

func (c *Collection) metadata(ctx context.Context, q Request) (Metadata, error) {
	var r resource
	h, err := c.server.JSON(ctx, q, &r)
	if err == nil && r.Data == nil {
		err = c.server.malformed(q, errors.New("no member data"))
	}
	if err != nil {
		return Metadata{}, err
	}
	return Metadata{Data: r.Data, Stamp: parseETag(h.Get("ETag"))}, nil
}

// List requests one page and calls row for each of its rows, as the rows arrive. The request ends if
// row returns an error or ctx ends; the error of row or ctx is returned unwrapped. If the error is
// [Retryable], the page was incomplete. The error matches [ErrNotFound] if there is no such collection.
func (c *Collection) List(ctx context.Context, q Query, row func(Row) error) (Page, error) {
	return c.server.list(ctx, q.request(c.path+"/records"), row)
}

// Request requests one page, and returns as soon as the header of the response has been received. It
// returns the same errors as [Collection.List].
func (c *Collection) Request(ctx context.Context, q Query) (*Listing, error) {
	return c.server.listing(ctx, q.request(c.path+"/records"))
}

// Head returns the stamp of the collection and the number of live records that match q.
func (c *Collection) Head(ctx context.Context, q Query) (Page, error) {
	r := q.request(c.path + "/records")
	r.Method = http.MethodHead
	resp, err := c.server.Do(ctx, r)
	if err != nil {
		return Page{}, err
	}
	defer resp.Body.Close()
	p := Page{Stamp: parseETag(resp.Header.Get("ETag")), NotModified: resp.StatusCode == http.StatusNotModified}
	total := resp.Header.Get("Total-Objects")
	if total == "" {
		total = resp.Header.Get("Total-Records")
	}
	if p.Total, err = strconv.ParseInt(total, 10, 64); err != nil && !p.NotModified {
		return p, c.server.malformed(r, errors.New("no valid Total-Objects"))
	}
	return p, nil
}

// CheckRead returns an error unless the user may read all records. Lists and metadata do not show this:
// users without that right get lists of the records that are shared with them, and users who may create
// records may read the metadata. So CheckRead requests a record that does not exist: the status is 404
// if the user may read all records, and otherwise 403.
func (c *Collection) CheckRead(ctx context.Context) error {
	_, err := c.Record(ctx, uuid.NewString())
	if e, ok := errors.AsType[*Error](err); ok && e.Missing() == "record" {
		return nil
	}
	return err
}

// Record returns a live record. The error matches [ErrNotFound] if there is no record with this id, or
// no such collection: [Error.Missing] distinguishes the two. The caller may keep the data.
func (c *Collection) Record(ctx context.Context, id string) (Row, error) {
	return c.one(ctx, Request{Path: c.Path(id)})
}

func (c *Collection) one(ctx context.Context, q Request) (Row, error) {
	var r resource
	if _, err := c.server.JSON(ctx, q, &r); err != nil {
		return Row{}, err
	}
	return c.server.rowOf(q, r.Data)
}
