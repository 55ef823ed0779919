package kinto

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/feedctl/feedctl/kinto"
)

// A Copy is what a record says about the entity from which a [Sink] wrote it.
type Copy struct {
	Key string
	// ContentID is empty for an entity without one, and if AsIs is set.
	ContentID string
	// AsIs means that the record has no fields of an entity: it is from package bridge/kinto, or of
	// another client.
	AsIs bool
	Body []byte // if AsIs, Record
	// Record is the record without its stamp.
	Record []byte
}

// CopyOf returns what the record with the given id says about its entity. If the key in a record belongs to
// another id, another client wrote the record, and CopyOf returns the id as the key.
func CopyOf(id string, record []byte) Copy {
	c := Copy{Key: id, Record: withoutStamp(record)}
	m, body, err := contents(record)
	if err != nil || m == nil { // the member is another client's, or there is none
		c.AsIs, c.Body = true, c.Record
		return c
	}
	c.ContentID, c.Body = m.ContentID, body
	if key := m.keyOf(id); recordID(key) == id {
		c.Key = key
	}
	return c
}

// Published returns the record, without its stamp, of an entity of package bridge/kinto with this key, ETag
// field and body. It returns false for other entities.
func Published(key, etag string, body []byte) (record []byte, ok bool) {
	return origin(key, StampOf(etag), body)
}

// FieldsOfCopies returns the members of a record that [CopyOf] needs for everything but the body.
func FieldsOfCopies() []string {
	return []string{metaMember + ".contentId", metaMember + ".key", metaMember + ".keyBase64"}
}

// IsTarget reports whether there is a position of a consumer that writes to a collection. Users who
// may not read the positions do not see them.
func IsTarget(ctx context.Context, c *kinto.Collection) (bool, error) {
	quoted, err := json.Marshal(c.Name())
	if err != nil {
		return false, err
	}
	found := false
	q := kinto.Query{Filter: url.Values{"collection": {string(quoted)}}, Fields: []string{"id"}, Limit: 1}
	_, err = c.Server().Collection(c.Bucket(), positionsName).List(ctx, q, func(kinto.Row) error {
		found = true
		return nil
	})
	switch kinto.Status(err) {
	case http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden:
		return false, nil
	}
	return found, err
}
