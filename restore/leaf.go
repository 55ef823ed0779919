package restore

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/jsonscan"
)

// A Leaf is a leaf revision of a document, with what must be the same in two databases.
type Leaf struct {
	ID, Rev string
	// Sum is the SHA-256, in hex, of the members of the document as JSON values, and of the name, type
	// and bytes of each attachment.
	Sum string

	replaced []string // its ancestors
}

// maxDocument is the maximum size, in bytes, of a JSON document that is read into memory.
const maxDocument = 64 << 20

// ErrNoRevisions means that a feed or database does not have the revisions of its documents.
var ErrNoRevisions = errors.New("it has no _revisions: the feed is not from \"feedctl bridge couchdb --revs\"")

// ReadLeaf reads a document as CouchDB sends it, with its _revisions: JSON with attachments in base64, or
// multipart/related (CouchDB documentation, "Getting Multiple Attachments"). Of attachments that are
// stubs, only the name and type count. The document, without the parts that follow it, is read into
// memory, and may be up to 64 MiB.
func ReadLeaf(contentType string, body io.Reader) (*Leaf, error) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, err
	}
	head, parts := body, (*multipart.Reader)(nil)
	if strings.HasPrefix(media, "multipart/") {
		parts = multipart.NewReader(body, params["boundary"])
		if head, err = parts.NextRawPart(); err != nil {
			return nil, fmt.Errorf("read document: %w", err)
		}
	}
	text, err := io.ReadAll(io.LimitReader(head, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read document: %w", err)
	}
	if len(text) > maxDocument {
		return nil, fmt.Errorf("read document: %w of %d bytes", consumer.ErrTooLarge, maxDocument)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("read document: %w", err)
	}
	leaf := &Leaf{ID: d.ID, Rev: d.Rev}
	if d.Revisions == nil {
		return nil, ErrNoRevisions
	}
	for i, id := range d.Revisions.IDs {
		if i > 0 {
			leaf.replaced = append(leaf.replaced, strconv.FormatInt(d.Revisions.Start-int64(i), 10)+"-"+id)
		}
	}
	members, err := canonical(text)
	if err != nil {
		return nil, fmt.Errorf("read document: %w", err)
	}
	hash := sha256.New()
	_, _ = hash.Write(members)
	files := map[string]string{}
	for name, a := range d.Attachments {
		if !a.Follows {
			sum := sha256.Sum256(a.Data)
			files[name] = a.ContentType + " " + hex.EncodeToString(sum[:])
			if a.Stub {
				files[name] = a.ContentType
			}
		}
	}
	if err := d.readParts(text, parts, files); err != nil {
		return nil, fmt.Errorf("read attachments: %w", err)
	}
	list, err := json.Marshal(files) // sorted
	_, _ = hash.Write(list)
	leaf.Sum = hex.EncodeToString(hash.Sum(nil))
	return leaf, err
}

// A document holds those members of a CouchDB document whose names begin with "_".
type document struct {
	ID        string `json:"_id"`
	Rev       string `json:"_rev"`
	Revisions *struct {
		Start int64    `json:"start"`
		IDs   []string `json:"ids"`
	} `json:"_revisions"`
	Attachments map[string]struct {
		ContentType string `json:"content_type"`
		Encoding    string `json:"encoding"`
		Follows     bool   `json:"follows"`
		Stub        bool   `json:"stub"`
		Data        []byte `json:"data"` // base64
	} `json:"_attachments"`
}

// canonical returns the members of a document, except those that CouchDB defines, in a form that depends only
// on their values.
func canonical(text []byte) ([]byte, error) {
	var members map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&members); err != nil {
		return nil, err
	}
	for _, name := range []string{"_id", "_rev", "_revisions", "_attachments"} {
		delete(members, name)
	}
	return json.Marshal(members)
}

// readParts adds the attachments that follow the document, in the order of their stubs (protocol, "Upload
// Document with Attachments").
func (d *document) readParts(text []byte, parts *multipart.Reader, files map[string]string) error {
	names, err := followers(text)
	if err != nil {
		return err
	}
	if len(names) > 0 && parts == nil {
		return errors.New("they do not follow the document")
	}
	for _, name := range names {
		part, err := parts.NextRawPart()
		if err != nil {
			return err
		}
		var content io.Reader = part
		if d.Attachments[name].Encoding == "gzip" || part.Header.Get("Content-Encoding") == "gzip" {
			if content, err = gzip.NewReader(part); err != nil {
				return err
			}
		}
		hash := sha256.New()
		if _, err := io.Copy(hash, content); err != nil {
			return err
		}
		files[name] = d.Attachments[name].ContentType + " " + hex.EncodeToString(hash.Sum(nil))
	}
	return nil
}

// followers returns the names of the attachments that follow a document, in order.
func followers(text []byte) (names []string, err error) {
	r := jsonscan.NewReader(bytes.NewReader(text))
	err = r.Object(func(member []byte) error {
		if string(member) != `"_attachments"` {
			return r.Skip()
		}
		return r.Object(func(quoted []byte) error {
			value, _, err := r.Value(maxDocument)
			if err != nil {
				return err
			}
			var stub struct {
				Follows bool `json:"follows"`
			}
			var name string
			if err := errors.Join(json.Unmarshal(value, &stub), json.Unmarshal(quoted, &name)); err != nil {
				return err
			}
			if stub.Follows {
				names = append(names, name)
			}
			return nil
		})
	})
	return names, err
}
