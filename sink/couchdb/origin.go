package couchdb

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"regexp"
	"strings"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonscan"
)

// revisionForm is the form of revisions: a number and a hash, which may be any text in one that
// was made by hand.
var revisionForm = regexp.MustCompile(`^[1-9][0-9]*-[^\x00-\x1f\x7f]+$`)

// revisionOf returns the revision that the ETag of an entity names; "" if it has
// none, or one of another kind.
func revisionOf(e *feed.Entity) string {
	for _, f := range e.Header {
		if !strings.EqualFold(f.Name, "ETag") {
			continue
		}
		rev := strings.TrimSuffix(strings.TrimPrefix(f.Value, `"`), `"`)
		if len(rev) == len(f.Value)-2 && revisionForm.MatchString(rev) && !isUnreadable(rev) {
			return rev
		}
	}
	return ""
}

// isUnreadable reports whether CouchDB cannot read a revision: it takes a hash of 32
// characters for a hexadecimal number, and any other for text.
func isUnreadable(rev string) bool {
	_, hash, _ := strings.Cut(rev, "-")
	if len(hash) != 32 {
		return false
	}
	_, err := hex.DecodeString(hash)
	return err != nil
}

// An identity is what a document says of itself.
type identity struct {
	id, rev string
	// history: it has _revisions, so it can be stored as it is.
	history bool
}

// validID reports whether CouchDB stores documents with this id as such. With
// new_edits=false it would take a local document for one.
func validID(id string) bool {
	return id != "" && (id[0] != '_' || strings.HasPrefix(id, "_design/") && id != "_design/")
}

// maxScanned is how much of an id or a revision is read, in bytes: more than any may have.
const maxScanned = 32 << 10

// identify reads a JSON object with members, in constant memory. It returns false if there is none.
func identify(r *jsonscan.Reader, text io.Reader) (found identity, ok bool) {
	r.Reset(text)
	err := r.Object(func(quoted []byte) error {
		ok = true
		var into *string
		switch name, _ := jsonscan.Unquote(quoted); name {
		case "_id":
			into = &found.id
		case "_rev":
			into = &found.rev
		case "_revisions":
			found.history = true
		}
		if into == nil {
			return r.Skip()
		}
		value, whole, err := r.Value(maxScanned)
		if *into = ""; err == nil && whole {
			_ = json.Unmarshal(value, into) // not a string: none
		}
		return errors.Join(err, r.Rest(io.Discard))
	})
	return found, ok && err == nil
}

// A related body is multipart/related (RFC 2387): a document, and what follows.
type related struct {
	boundary string
	document piece // the JSON
	rest     piece // from the line break on that ends the JSON
}

const relatedType = "multipart/related"

// boundaryOf returns the boundary of a multipart/related body; "" if it is none.
func boundaryOf(contentType string) string {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media != relatedType {
		return ""
	}
	return params["boundary"]
}

// maxPartHeader limits the header of the first part of a multipart body.
const maxPartHeader = 4 << 10

// openRelated finds the document in a multipart body, if that is what it is.
func (s *spool) openRelated(contentType string, body piece) (r related, ok bool, err error) {
	boundary := boundaryOf(contentType)
	if boundary == "" {
		return r, false, nil
	}
	head := piece{body.at, min(body.size, maxPartHeader)}
	start, err := s.append(nil, head)
	if err != nil {
		return r, false, err
	}
	delimiter := "--" + boundary
	first := bytes.Index(start, []byte("\r\n\r\n"))
	if first < 0 || !bytes.HasPrefix(bytes.TrimLeft(start, "\r\n"), []byte(delimiter)) {
		return r, false, nil
	}
	at := int64(first + len("\r\n\r\n"))
	end, err := index(s.reader(piece{body.at + at, body.size - at}), []byte("\r\n"+delimiter))
	if err != nil || end < 0 {
		return r, false, err
	}
	r = related{boundary, piece{body.at + at, end}, piece{body.at + at + end, body.size - at - end}}
	return r, true, nil
}

// index returns where in a stream the bytes of sep begin, or -1.
func index(stream io.Reader, sep []byte) (int64, error) {
	buf := make([]byte, 64<<10)
	kept, before := 0, int64(0)
	for {
		n, err := stream.Read(buf[kept:])
		kept += n
		if i := bytes.Index(buf[:kept], sep); i >= 0 {
			return before + int64(i), nil
		}
		if err == io.EOF {
			return -1, nil
		}
		if err != nil {
			return -1, err
		}
		if keep := len(sep) - 1; kept > keep {
			before += int64(kept - keep)
			copy(buf, buf[kept-keep:kept])
			kept = keep
		}
	}
}
