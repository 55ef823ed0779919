package couchdb

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
)

// inlined converts a document in multipart/related to JSON with its attachments in base64, so that
// it can be written in one request with others. It returns false if the document is too large or
// has a compressed attachment: the server would compress it again, and change its digest.
func inlined(body []byte, boundary string) (doc []byte, ok bool) {
	if body == nil || len(body) > maxInline {
		return nil, false
	}
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	head, _, err := nextPart(parts)
	if err != nil {
		return nil, false
	}
	all := true
	doc, ok = editAttachments(head, func(a member) []byte {
		text, inlined := inlinePart(a, parts)
		all = all && inlined
		return text
	})
	_, _, err = nextPart(parts)
	return doc, ok && all && err == io.EOF
}

// inlinePart puts the next part into an attachment stub marked "follows". Parts are in the order
// of the stubs (protocol, "Upload Document with Attachments").
func inlinePart(a member, parts *multipart.Reader) (text []byte, ok bool) {
	var stub struct {
		Follows  bool   `json:"follows"`
		Encoding string `json:"encoding"`
		Length   int    `json:"length"`
	}
	if json.Unmarshal(a.value, &stub) != nil || stub.Encoding != "" {
		return nil, false
	}
	if !stub.Follows {
		return a.text, true
	}
	content, name, err := nextPart(parts)
	if err != nil || name != "" && name != a.name || len(content) != stub.Length {
		return nil, false
	}
	return a.with(edit(a.value, func(m member) []byte {
		switch m.name {
		case "follows":
			return append(base64.StdEncoding.AppendEncode([]byte(`"data":"`), content), '"')
		case "length":
			return nil
		}
		return m.text
	})), true
}

var errEncoded = errors.New("part is encoded")

// nextPart reads a part, which must not be encoded.
func nextPart(parts *multipart.Reader) (content []byte, name string, err error) {
	p, err := parts.NextRawPart()
	if err != nil {
		return nil, "", err
	}
	if p.Header.Get("Content-Encoding") != "" {
		return nil, "", errEncoded
	}
	// Not p.FileName(), which removes directories from the name.
	_, disposition, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
	if err == nil {
		name = disposition["filename"]
	}
	content, err = io.ReadAll(p)
	return content, name, err
}
