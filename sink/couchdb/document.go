package couchdb

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/sink/internal/content"
	"github.com/feedctl/feedctl/sink/internal/spool"
)

const (
	// metaMember is the member of a document with the fields of the entity other than its body.
	metaMember = "feedctl"
	// bodyName is the attachment with the body.
	bodyName = "body"
	// attachmentsMember is CouchDB's member for attachments.
	attachmentsMember = "_attachments"
)

// A member is a member of an object, with its value as JSON text.
type member struct {
	name  string
	text  []byte // with its name
	value []byte
}

// with returns the text of m with another value.
func (m member) with(value []byte) []byte {
	return slices.Concat(m.text[:len(m.text)-len(m.value)], value)
}

// members returns the members of an object. The text must be valid and have no white space.
func members(text []byte) (all []member) {
	for quoted, value := range jsonscan.Members(text) {
		name, _ := jsonscan.Unquote(quoted)
		all = append(all, member{name, slices.Concat(quoted, []byte{':'}, value), value})
	}
	return all
}

// edit returns an object with each member replaced by the result of change, or removed if
// that is nil. A value that is not an object is returned unchanged.
func edit(value []byte, change func(member) []byte) []byte {
	if value[0] != '{' {
		return value
	}
	var all []byte
	for _, m := range members(value) {
		if text := change(m); text != nil {
			all = join(all, text)
		}
	}
	return enclose(all)
}

// editAttachments returns a document with each attachment replaced by the result of change. It
// returns false if the document is not valid.
func editAttachments(document []byte, change func(member) []byte) ([]byte, bool) {
	text, ok := jsonscan.AppendCompact(nil, document)
	if !ok || len(text) == 0 || text[0] != '{' {
		return nil, false
	}
	return edit(text, func(m member) []byte {
		if m.name != attachmentsMember {
			return m.text
		}
		return m.with(edit(m.value, change))
	}), true
}

// split returns an object with the user's members of a document, and the attachments
// whose content is present: inline, or, with follow, in the parts that follow. It returns
// false if the document is not valid.
func split(document []byte, follow bool) (own, attachments []byte, ok bool) {
	text, ok := jsonscan.AppendCompact(nil, document)
	if !ok || len(text) == 0 || text[0] != '{' {
		return nil, nil, false
	}
	own = edit(text, func(m member) []byte {
		switch {
		case m.name == attachmentsMember:
			attachments = present(m.value, follow)
			return nil
		case strings.HasPrefix(m.name, "_") || m.name == metaMember:
			return nil
		}
		return m.text
	})
	return own, attachments, true
}

// present returns the attachments whose content is present, or nil if there are none.
func present(value []byte, follow bool) []byte {
	kept := edit(value, func(m member) []byte {
		var a struct {
			Data    *string `json:"data"`
			Follows bool    `json:"follows"`
		}
		if json.Unmarshal(m.value, &a) == nil && (a.Data != nil || follow && a.Follows) {
			return m.text
		}
		return nil
	})
	if len(kept) == len("{}") || kept[0] != '{' {
		return nil
	}
	return kept
}

func enclose(members []byte) []byte {
	return append(append([]byte{'{'}, members...), '}')
}

func join(list, text []byte) []byte {
	if len(list) > 0 {
		list = append(list, ',')
	}
	return append(list, text...)
}

// appendAbout appends the members of metaMember that a PATCH leaves alone.
func appendAbout(dst []byte, e *feed.Entity) []byte {
	dst = jsonscan.AppendText(append(dst, `"contentType":`...), e.ContentType)
	return content.AppendHeaders(append(dst, `,"headers":`...), e.Header)
}

// inline reports whether c has its body as an attachment within the document.
func (c *change) inline() bool {
	return c.form != asMembers && c.body.Size <= maxInline
}

// multipart reports whether c is written as multipart/related.
func (t *target) multipart(c *change) bool {
	return c.boundary != "" || c.form != asMembers && !c.inline()
}

// sizeMeta is the approximate size, in bytes, of a document without its id and its entity.
const sizeMeta = 160

// size returns the approximate size of the document of c.
func (t *target) size(c *change) int64 {
	n := sizeMeta + int64(len(c.id)) + c.about.Size + c.attachments.Size
	if c.form != asAttachment {
		n += c.body.Size
	}
	if c.inline() {
		n += int64(base64.StdEncoding.EncodedLen(int(c.body.Size)))
	}
	return n
}

// document returns the document of c, without a revision.
func (t *target) document(c *change) ([]byte, error) {
	var err error
	doc := append(make([]byte, 0, t.size(c)), `{"_id":`...)
	doc = jsonscan.AppendString(doc, c.id)
	if c.deleted {
		doc = append(doc, `,"_deleted":true`...)
	}
	if c.form != asAttachment && c.body.Size > 0 {
		if doc, err = t.appendMembers(doc, c); err != nil {
			return nil, err
		}
	}
	if doc, err = t.appendMeta(doc, c); err != nil {
		return nil, err
	}
	if doc, err = t.appendAttachments(doc, c); err != nil {
		return nil, err
	}
	return append(doc, '}'), nil
}

// appendMembers appends the members of the body, without white space.
func (t *target) appendMembers(doc []byte, c *change) ([]byte, error) {
	text, err := t.spool.Append(t.buf[:0], c.body)
	t.buf = text
	if err != nil {
		return nil, err
	}
	brace := len(doc)
	doc, _ = jsonscan.AppendCompact(doc, text) // it was valid when it was applied
	if len(doc) == brace+len("{}") {
		return doc[:brace], nil
	}
	doc[brace] = ','
	return doc[:len(doc)-1], nil
}

func (t *target) appendMeta(doc []byte, c *change) (_ []byte, err error) {
	doc = append(doc, `,"`+metaMember+`":{`...)
	doc = content.AppendEvent(doc, &feed.Entity{ContentID: c.contentID, LastModified: c.lastModified})
	doc = append(doc, ',')
	if doc, err = t.spool.Append(doc, c.about); err != nil {
		return nil, err
	}
	if c.key != c.id {
		doc = content.AppendKey(append(doc, ','), c.key)
	}
	if c.form != asMembers {
		doc = append(doc, `,"body":"attachment"`...)
	}
	return append(doc, '}'), nil
}

func (t *target) appendAttachments(doc []byte, c *change) (_ []byte, err error) {
	switch {
	case c.attachments.Size > 0:
		return t.spool.Append(append(doc, `,"`+attachmentsMember+`":`...), c.attachments)
	case c.form == asMembers:
		return doc, nil
	}
	doc = append(doc, `,"`+attachmentsMember+`":{"`+bodyName+`":{"content_type":`...)
	doc = jsonscan.AppendText(doc, c.attachmentType())
	if !c.inline() {
		doc = strconv.AppendInt(append(doc, `,"follows":true,"length":`...), c.body.Size, 10)
		return append(doc, "}}"...), nil
	}
	body, err := t.spool.Append(t.buf[:0], c.body)
	t.buf = body
	if err != nil {
		return nil, err
	}
	doc = base64.StdEncoding.AppendEncode(append(doc, `,"data":"`...), body)
	return append(doc, `"}}`...), nil
}

// attachmentType returns the media type of the body, which CouchDB requires.
func (c *change) attachmentType() string { return cmp.Or(c.contentType, "application/octet-stream") }

// withRev returns the text of a document with the revision that it replaces.
func withRev(doc []byte, rev string) []byte {
	if rev == "" {
		return doc
	}
	with := jsonscan.AppendString(append(make([]byte, 0, len(doc)+len(rev)+10), `{"_rev":`...), rev)
	return append(append(with, ','), doc[1:]...)
}

// envelope returns the parts of a multipart/related request: the text before the document of c, the text
// between the document and the body, the body, and the text after it.
func (c *change) envelope(boundary string) (before, between string, body spool.Piece, after string) {
	delimiter := "--" + boundary
	before = delimiter + "\r\nContent-Type: application/json\r\n\r\n"
	if c.boundary != "" {
		return before, "", c.rest, ""
	}
	between = "\r\n" + delimiter + "\r\nContent-Disposition: attachment; filename=\"" + bodyName + "\"\r\nContent-Type: " + c.attachmentType() + "\r\n\r\n"
	return before, between, c.body, "\r\n" + delimiter + "--\r\n"
}
