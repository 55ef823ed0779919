package s3

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/storage"
)

const (
	// metaName is the name of the user metadata that holds the record: x-amz-meta-feedctl.
	metaName      = "feedctl"
	recordVersion = "1"
	idLen         = 26 // length of the ID of a write, in characters

	// maxInline is the maximum size of a payload in a record, in bytes, so that the metadata stays
	// below S3's limit of 2 KB.
	maxInline = 1300

	trailerBegin = "\r\nfeedctl "
	trailerEnd   = "\r\n"
	shortTrailer = len(trailerBegin) + idLen + len(trailerEnd)
)

// A record describes one state of an object.
type record struct {
	id      string            // of the write
	sum     [sha256.Size]byte // of the body
	size    int64             // of the body
	trailer int               // length of the trailer; 0 if the object has none
	payload []byte            // encoded storage.Meta; nil if it is in the trailer
}

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	base64URL  = base64.RawURLEncoding.Strict()
)

var errMeta = errors.New("its metadata is damaged")

// long reports whether the payload is in the trailer.
func (r *record) long() bool { return r.trailer > shortTrailer }

func (r *record) String() string {
	text := strings.Join([]string{
		recordVersion, r.id, base64URL.EncodeToString(r.sum[:]), strconv.FormatInt(r.size, 10), strconv.Itoa(r.trailer),
		base64URL.EncodeToString(r.payload),
	}, ".")
	return text + "." + checksum(text)
}

func checksum(text string) string {
	return fmt.Sprintf("%08x", crc32.Checksum([]byte(text), castagnoli))
}

func parseRecord(text string) (*record, error) {
	if text == "" {
		return nil, errors.New("it has no feedctl metadata: another program wrote it, or the metadata was dropped")
	}
	covered := text[:max(0, strings.LastIndexByte(text, '.'))]
	if text != covered+"."+checksum(covered) {
		return nil, errMeta
	}
	fields := strings.Split(covered, ".")
	if fields[0] != recordVersion {
		return nil, fmt.Errorf("%w: its metadata is of version %.10q, want %q; use the feedctl that wrote it",
			storage.ErrLayout, fields[0], recordVersion)
	}
	if len(fields) != 6 || len(fields[1]) != idLen {
		return nil, errMeta
	}
	sum, err1 := base64URL.DecodeString(fields[2])
	size, err2 := strconv.ParseInt(fields[3], 10, 64)
	trailer, err3 := strconv.Atoi(fields[4])
	payload, err4 := base64URL.DecodeString(fields[5])
	r := &record{id: fields[1], size: size, trailer: trailer, payload: payload}
	if copy(r.sum[:], sum) != sha256.Size || size < 0 || trailer < 0 || errors.Join(err1, err2, err3, err4) != nil {
		return nil, errMeta
	}
	return r, nil
}

// encodeMeta returns the payload of a record.
func encodeMeta(meta storage.Meta) []byte {
	var b []byte
	for _, header := range []string{meta.ContentType, meta.CacheControl} {
		b = binary.AppendUvarint(b, uint64(len(header)))
		b = append(b, header...)
	}
	return append(b, meta.Data...)
}

func decodeMeta(payload []byte) (meta storage.Meta, err error) {
	for _, header := range []*string{&meta.ContentType, &meta.CacheControl} {
		length, n := binary.Uvarint(payload)
		if n <= 0 || length > uint64(len(payload)-n) {
			return storage.Meta{}, errMeta
		}
		payload = payload[n:]
		*header, payload = string(payload[:length]), payload[length:]
	}
	meta.Data = bytes.Clone(payload)
	return meta, nil
}

// makeTrailer returns the trailer of an object. It includes the payload unless that is nil.
func makeTrailer(id string, payload []byte) []byte {
	var b bytes.Buffer
	b.WriteString(trailerBegin + id)
	if payload != nil {
		text := base64URL.EncodeToString(payload)
		b.WriteString(" " + checksum(text) + " " + text)
	}
	b.WriteString(trailerEnd)
	return b.Bytes()
}

// checkTrailer returns the metadata of an object with this trailer, or an error if the
// trailer does not belong to the record.
func (r *record) checkTrailer(trailer []byte) (storage.Meta, error) {
	payload := r.payload
	if r.trailer > 0 {
		text, ok := strings.CutPrefix(string(trailer), trailerBegin+r.id)
		text, ok2 := strings.CutSuffix(text, trailerEnd)
		if !ok || !ok2 || len(trailer) != r.trailer {
			return storage.Meta{}, errors.New("its trailer does not match its metadata")
		}
		if r.long() {
			sum, encoded, _ := strings.Cut(strings.TrimPrefix(text, " "), " ")
			decoded, err := base64URL.DecodeString(encoded)
			if sum != checksum(encoded) || err != nil {
				return storage.Meta{}, errors.New("the metadata in its trailer is damaged")
			}
			payload = decoded
		}
	}
	return decodeMeta(payload)
}
