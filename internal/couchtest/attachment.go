package couchtest

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"
)

// An attachment is a file of a revision. Files of compressible types are stored compressed. The digest is
// that of the stored bytes.
type attachment struct {
	name        string
	contentType string
	revpos      int
	length      int // of the plain bytes
	gzipped     bool
	stored      []byte
}

// newAttachment returns an attachment with the given bytes, stored as CouchDB does with its default
// settings.
func newAttachment(name, contentType string, revpos int, plain []byte) attachment {
	a := attachment{name: name, contentType: contentType, revpos: revpos, length: len(plain), stored: plain}
	if len(plain) > 0 && compressible(contentType) {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, 8) // the level is valid
		_, _ = w.Write(plain)              // memory accepts all bytes
		_ = w.Close()
		a.stored, a.gzipped = b.Bytes(), true
	}
	return a
}

func compressible(contentType string) bool {
	name, _, _ := strings.Cut(contentType, ";")
	switch name {
	case "application/javascript", "application/json", "application/xml":
		return true
	}
	return strings.HasPrefix(name, "text/")
}

func (a attachment) digest() string {
	sum := md5.Sum(a.stored)
	return "md5-" + base64.StdEncoding.EncodeToString(sum[:])
}

// plain returns the bytes as they were uploaded.
func (a attachment) plain() ([]byte, error) {
	if !a.gzipped {
		return a.stored, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(a.stored))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// A form says how a document shows an attachment.
type form int

const (
	stub    form = iota
	inline       // base64 of the plain bytes
	follows      // the stored bytes follow in another part of the multipart document
)

// json describes the attachment in its document.
func (a attachment) json(f form, encodingInfo bool) member {
	members := []member{
		{"content_type", quote(a.contentType)},
		{"revpos", number(a.revpos)},
		{"digest", quote(a.digest())},
	}
	switch f {
	case stub:
		members = append(members, member{"length", number(a.length)}, member{"stub", yes(true)})
	case inline:
		plain, err := a.plain()
		if err != nil {
			plain = nil // the bytes are not gzip, although the uploader said so
		}
		members = append(members, member{"data", quote(base64.StdEncoding.EncodeToString(plain))})
	case follows:
		members = append(members, member{"length", number(a.length)}, member{"follows", yes(true)})
	}
	if a.gzipped && (encodingInfo || f == follows) {
		members = append(members, member{"encoding", quote("gzip")}, member{"encoded_length", number(len(a.stored))})
	}
	return member{a.name, object(members...)}
}

// An upload describes an attachment in a document that is written.
type upload struct {
	ContentType string `json:"content_type"`
	Revpos      int    `json:"revpos"`
	Digest      string `json:"digest"`
	Length      int    `json:"length"`
	Data        []byte `json:"data"`
	Encoding    string `json:"encoding"`
	Stub        bool   `json:"stub"`
	Follows     bool   `json:"follows"`
}

// parts holds the bodies, by name, of the attachments that follow the document.
type parts map[string][]byte

// parseAttachments reads the member _attachments of a document. For a stub, it takes the attachment from
// have, and fails if it is not there.
func parseAttachments(text []byte, have []attachment, sent parts) ([]attachment, error) {
	members, err := parseObject(text)
	if err != nil {
		return nil, badRequest("Attachments must be a JSON object")
	}
	var list []attachment
	for _, m := range members {
		var u upload
		if err := json.Unmarshal(m.value, &u); err != nil {
			return nil, badRequest("Invalid attachment data for " + m.name)
		}
		a, err := u.attachment(m.name, have, sent)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

// errDigest is the response if the digest in the stub of an attachment is not base64.
var errDigest = &failure{500, "unknown_error", "badarg"}

func (u upload) attachment(name string, have []attachment, sent parts) (attachment, error) {
	switch {
	case u.Stub:
		if _, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(u.Digest, "md5-")); err != nil {
			return attachment{}, errDigest
		}
		for _, a := range have {
			if a.name == name {
				return a, nil
			}
		}
		return attachment{}, &failure{412, "missing_stub", "Invalid attachment stub in document for " + name}
	case u.Follows:
		body, ok := sent[name]
		if !ok {
			return attachment{}, badRequest("attachment " + name + " does not follow")
		}
		if sum := (attachment{stored: body}).digest(); u.Digest != "" && u.Digest != sum {
			return attachment{}, &failure{400, "content_md5_mismatch", "Possible message corruption."}
		}
		if u.Encoding != "gzip" {
			return newAttachment(name, u.ContentType, u.Revpos, body), nil
		}
		return attachment{name: name, contentType: u.ContentType, revpos: u.Revpos, length: u.Length, gzipped: true, stored: body}, nil
	}
	return newAttachment(name, u.ContentType, u.Revpos, u.Data), nil
}
