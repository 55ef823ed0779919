package kinto

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/internal/roundtrip"
)

// Orders for lists that depend only on the records.
const (
	OldestFirst = "last_modified,id"
	NewestFirst = "-last_modified,-id"
)

// A Query selects records of a collection (Kinto API documentation, "Filtering", "Sorting" and
// "Pagination"). The zero Query is the first page of all live records, newest first.
type Query struct {
	Sort string // such as [OldestFirst]; empty: newest first
	// Min and Max are inclusive bounds on the stamp. Zero means no bound. A list with a bound contains
	// tombstones, too.
	Min, Max int64
	// Tombstones makes the list contain tombstones even if Min and Max are 0.
	Tombstones bool
	// IDs are the ids of the records to list: at most about 50, because they are part of the URL.
	// nil means all.
	IDs []string
	// Fields are the fields to return; the id and the stamp are always returned. nil means all.
	Fields []string
	// Filter holds further filters, such as {"lang": {"de"}}.
	Filter url.Values
	// Limit is the maximum number of rows on a page. The server may return fewer. Zero means the server's
	// limit.
	Limit int
	// Token is [Page.Next] of the previous page. The other fields must be the same as for the first
	// page.
	Token string
	// IfMatch makes the request fail with [ErrPreconditionFailed] unless it is the stamp of the
	// collection. Zero means that the stamp is not checked.
	IfMatch int64
	// IfNoneMatch makes the server send no rows if it is the stamp of the collection
	// ([Page.NotModified]). Zero means that the stamp is not checked.
	IfNoneMatch int64
}

func (q *Query) request(path string) Request {
	v := make(url.Values)
	for name, values := range q.Filter {
		v[name] = values
	}
	set := func(name, value string, wanted bool) {
		if wanted {
			v.Set(name, value)
		}
	}
	set("_sort", q.Sort, q.Sort != "")
	set("min_last_modified", strconv.FormatInt(q.Min, 10), q.Min != 0 || q.Tombstones)
	set("max_last_modified", strconv.FormatInt(q.Max, 10), q.Max != 0)
	set("in_id", quotedList(q.IDs), q.IDs != nil)
	set("_fields", strings.Join(q.Fields, ","), q.Fields != nil)
	set("_limit", strconv.Itoa(q.Limit), q.Limit != 0)
	set("_token", q.Token, q.Token != "")
	r := Request{Path: path, Query: v, Header: http.Header{}}
	if q.IfMatch != 0 {
		r.Header.Set("If-Match", ETag(q.IfMatch))
	}
	if q.IfNoneMatch != 0 {
		r.Header.Set("If-None-Match", ETag(q.IfNoneMatch))
	}
	return r
}

// quotedList returns ids as the value of an in_ filter. Quotes keep the server from reading an id as
// a number.
func quotedList(ids []string) string {
	quoted := make([]string, len(ids))
	for i, id := range ids {
		quoted[i] = `"` + id + `"`
	}
	return strings.Join(quoted, ",")
}

// ETag returns the entity tag for a stamp.
func ETag(stamp int64) string { return `"` + strconv.FormatInt(stamp, 10) + `"` }

// parseETag returns the stamp in an entity tag, or 0.
func parseETag(tag string) int64 {
	stamp, err := strconv.ParseInt(strings.Trim(strings.TrimPrefix(tag, "W/"), `"`), 10, 64)
	if err != nil {
		return 0
	}
	return stamp
}

// A Row is a record or a tombstone in a list.
type Row struct {
	ID    string
	Stamp int64
	// Deleted means that the row is a tombstone, unless it is a live record whose only member is
	// "deleted": true. [Collection.Record] distinguishes them.
	Deleted bool
	// Data is the JSON object as the server sent it, valid until the callback returns. It is nil if
	// the object is larger than [Config.MaxRecord].
	Data []byte
	Size int64 // of the object, in bytes
}

// A Page describes a page of a list.
type Page struct {
	// Stamp is the stamp of the collection, read before the rows, so a row may be newer. It is 0 if the
	// server did not send it.
	Stamp int64
	// Next is the token of the next page, or empty on the last page.
	Next string
	// NotModified means that Query.IfNoneMatch is still the stamp of the collection, so there were no
	// rows.
	NotModified bool
	// Total is the number of live records that match the query. Only [Collection.Head] sets it.
	Total int64
}

func pageOf(h http.Header) (Page, error) {
	p := Page{Stamp: parseETag(h.Get("ETag"))}
	if next := h.Get("Next-Page"); next != "" {
		u, err := url.Parse(next)
		if err == nil {
			p.Next = u.Query().Get("_token")
		}
		if p.Next == "" {
			return p, fmt.Errorf("%w: Next-Page without a token", ErrMalformed)
		}
	}
	return p, nil
}

// A Listing is a page whose rows have not been read yet. Call [Listing.Rows] or [Listing.Close].
type Listing struct {
	Page
	server *Server
	query  Request
	body   io.ReadCloser
}

// list requests a page and calls row for each of its rows.
func (s *Server) list(ctx context.Context, q Request, row func(Row) error) (Page, error) {
	l, err := s.listing(ctx, q)
	if err != nil {
		return Page{}, err
	}
	return l.Page, l.Rows(row)
}

// listing requests a page, and returns as soon as the header of the response has been received.
func (s *Server) listing(ctx context.Context, q Request) (*Listing, error) {
	resp, err := s.Do(ctx, q)
	if err != nil {
		return nil, err
	}
	q.Method = http.MethodGet
	p, err := pageOf(resp.Header)
	if err != nil {
		resp.Body.Close()
		return nil, fmt.Errorf("%s: %w", s.what(q), err)
	}
	p.NotModified = resp.StatusCode == http.StatusNotModified
	return &Listing{Page: p, server: s, query: q, body: resp.Body}, nil
}

// Rows calls row for each row, as the rows arrive, and closes the page. It returns the same errors as
// [Collection.List].
func (l *Listing) Rows(row func(Row) error) error {
	defer l.Close()
	if l.NotModified {
		return nil
	}
	rows := &rows{r: jsonscan.NewReader(l.body), most: l.server.config.MaxRecord, row: row}
	if err := rows.read(); err != nil {
		if rows.failed != nil {
			return rows.failed
		}
		return l.server.broken(l.query, err)
	}
	_, _ = io.CopyN(io.Discard, l.body, 4<<10) // read to the end, so that the connection can be reused
	return nil
}

// Close ends the request. It may be called more than once.
func (l *Listing) Close() error { return l.body.Close() }

// broken returns the error for a response that cannot be read to its end. It is retryable if the
// response was truncated.
func (s *Server) broken(q Request, err error) error {
	var cut *roundtrip.Error
	var syntax *jsonscan.SyntaxError
	switch {
	case errors.As(err, &cut), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &roundtrip.Error{What: s.what(q), Err: io.ErrUnexpectedEOF}
	case errors.As(err, &syntax), errors.Is(err, errRow):
		return s.malformed(q, err)
	}
	return err
}

var errRow = errors.New("not a list of records")

// rows reads {"data": [ ... ]}.
type rows struct {
	r      *jsonscan.Reader
	most   int
	row    func(Row) error
	failed error // returned by row
}

func (l *rows) read() error {
	found := false
	err := l.r.Object(func(name []byte) error {
		if string(name) != `"data"` {
			return l.r.Skip()
		}
		found = true
		return l.r.Array(l.element)
	})
	if err == nil && !found {
		return fmt.Errorf("%w: no member data", errRow)
	}
	return err
}

func (l *rows) element() error {
	data, whole, err := l.r.Value(l.most)
	if err != nil {
		return err
	}
	var row Row
	if whole {
		row, err = scan(data)
	} else {
		row, err = l.large(data)
	}
	if err != nil {
		return err
	}
	l.failed = l.row(row)
	return l.failed
}

// scan returns the row for a JSON object.
func scan(data []byte) (Row, error) {
	row := Row{Data: data, Size: int64(len(data))}
	members := 0
	for name, value := range jsonscan.Members(data) {
		members++
		row.set(name, value)
	}
	row.Deleted = row.Deleted && members == 3
	return row, row.check(data)
}

func (row *Row) set(name, value []byte) {
	switch string(name) {
	case `"id"`:
		row.ID, _ = jsonscan.Unquote(value) // empty if it is not a string
	case `"last_modified"`:
		row.Stamp, _ = strconv.ParseInt(string(value), 10, 64) // 0 if it is not a number
	case `"deleted"`:
		row.Deleted = string(value) == "true"
	}
}

func (row *Row) check(data []byte) error {
	if row.ID == "" || row.Stamp <= 0 {
		return fmt.Errorf("%w: row without id or last_modified: %.100s", errRow, data)
	}
	return nil
}

// large reads a row that is larger than l.most. It keeps only the id and stamp of the row.
func (l *rows) large(begin []byte) (Row, error) {
	reader, writer := io.Pipe()
	type result struct {
		row Row
		err error
	}
	done := make(chan result, 1)
	go func() {
		row, err := scanLarge(reader)
		_, _ = io.Copy(io.Discard, reader)
		done <- result{row, err}
	}()
	size := &counter{w: writer}
	_, err := size.Write(begin)
	if err == nil {
		err = l.r.Rest(size)
	}
	writer.CloseWithError(err) // nil: the end
	found := <-done
	if err != nil {
		return Row{}, err
	}
	found.row.Size = size.n
	return found.row, found.err
}

func scanLarge(r io.Reader) (Row, error) {
	var row Row
	j := jsonscan.NewReader(r)
	err := j.Object(func(name []byte) error {
		switch string(name) {
		case `"id"`, `"last_modified"`:
		default:
			return j.Skip()
		}
		known := string(name)
		value, whole, err := j.Value(64 << 10)
		if err != nil {
			return err
		}
		if !whole {
			return errRow
		}
		row.set([]byte(known), value)
		return nil
	})
	if err != nil {
		return row, err
	}
	return row, row.check(nil)
}

// A counter counts the bytes that are written to w.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// rowOf returns the row in the response to a request about one record.
func (s *Server) rowOf(q Request, data json.RawMessage) (Row, error) {
	row, err := scan(data)
	if err != nil {
		return row, s.malformed(q, err)
	}
	return row, nil
}
