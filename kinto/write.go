package kinto

import (
	"context"
	"encoding/json"
	"net/http"
)

// A Condition is a condition for a write. The server checks it without a lock, so two concurrent
// writers may both succeed. The zero Condition is always true.
type Condition struct {
	IfMatch int64 // the stamp that the record must have; 0 allows any stamp
	Absent  bool  // there must be no record
}

func (c Condition) header() http.Header {
	h := http.Header{}
	if c.IfMatch != 0 {
		h.Set("If-Match", ETag(c.IfMatch))
	}
	if c.Absent {
		h.Set("If-None-Match", "*")
	}
	return h
}

// Put creates or replaces a record, and returns it as stored. data is a JSON object. The error
// matches [ErrPreconditionFailed] if the condition is false. The request is repeated if its outcome
// is unknown and there is no condition.
func (c *Collection) Put(ctx context.Context, id string, data json.RawMessage, when Condition) (Row, error) {
	body, err := json.Marshal(resource{data})
	if err != nil {
		return Row{}, err
	}
	return c.one(ctx, Request{Method: http.MethodPut, Path: c.Path(id), Body: body, Header: when.header(), Repeat: when == Condition{}})
}

// Delete deletes a record and returns its tombstone. The error matches [ErrNotFound] if there is no
// such record.
func (c *Collection) Delete(ctx context.Context, id string, when Condition) (Row, error) {
	return c.one(ctx, Request{Method: http.MethodDelete, Path: c.Path(id), Header: when.header()})
}
