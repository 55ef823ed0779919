package pagecache

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/filepart"
	"github.com/feedctl/feedctl/internal/regular"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

var errDamaged = errors.New("file is damaged")

// A file ends with the SHA-256 of the metadata, the length of the metadata, and magic.
const (
	magic     = "feedpage1\n"
	sumEnd    = sha256.Size
	lengthEnd = sumEnd + 4
	endSize   = lengthEnd + len(magic)
)

func (e *entry) fileName() string { return fmt.Sprintf("%s@%012d@%s", e.feed, e.number, e.digest) }

func (c *Cache) path(e *entry) string { return filepath.Join(c.dir, pageDir, e.fileName()) }

// parseName parses a file name returned by fileName.
func parseName(name string) (*entry, bool) {
	parts := strings.Split(name, "@")
	if len(parts) != 3 || layout.CheckName(parts[0]) != nil {
		return nil, false
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || n < 1 {
		return nil, false
	}
	if sum, err := hex.DecodeString(parts[2]); err != nil || len(sum) != sha256.Size {
		return nil, false
	}
	e := &entry{place: place{parts[0], n}, digest: parts[2]}
	return e, e.fileName() == name
}

// trailer returns the bytes that follow the body of a page in its file: the metadata without the
// producer's checkpoint, and the end of the file.
func trailer(p *chain.Page) ([]byte, error) {
	lean := *p
	lean.Checkpoint = nil
	meta, err := lean.Meta()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(meta.Data)
	t := append(bytes.Clone(meta.Data), sum[:]...)
	t = binary.BigEndian.AppendUint32(t, uint32(len(meta.Data)))
	return append(t, magic...), nil
}

// readTrailer reads and checks the metadata of the page in a file.
func readTrailer(f *os.File, e entry) (*chain.Page, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size != e.size || size < int64(endSize) {
		return nil, fmt.Errorf("%w: %d bytes, want %d", errDamaged, size, e.size)
	}
	var end [endSize]byte
	if _, err := f.ReadAt(end[:], size-int64(endSize)); err != nil {
		return nil, err
	}
	length := int64(binary.BigEndian.Uint32(end[sumEnd:]))
	bodySize := size - int64(endSize) - length
	if string(end[lengthEnd:]) != magic || length > storage.MaxMeta || bodySize < 0 {
		return nil, fmt.Errorf("%w: invalid trailer", errDamaged)
	}
	data := make([]byte, length)
	if _, err := f.ReadAt(data, bodySize); err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); !bytes.Equal(sum[:], end[:sumEnd]) {
		return nil, fmt.Errorf("%w: SHA-256 of metadata does not match", errDamaged)
	}
	p, err := chain.Decode(e.feed, e.number, storage.Info{Key: f.Name(), Size: bodySize, Meta: storage.Meta{Data: data}})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if digest := p.Digest(); digest != e.digest {
		return nil, fmt.Errorf("%w: it holds the page with digest %s", errDamaged, digest)
	}
	return p, nil
}

// open opens the file of an entry and reads its metadata.
func (c *Cache) open(e entry) (*os.File, *chain.Page, error) {
	f, err := regular.Open(c.path(&e), os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	p, err := readTrailer(f, e)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, p, nil
}

// Meta returns the metadata of the entry for page n of a feed. The metadata is undamaged, but may
// belong to another chain: the caller has to compare its digest with the digest in the next page or
// in the store. Version, Modified and Checkpoint are not set.
func (c *Cache) Meta(feed string, n int64) (*chain.Page, bool) {
	e, ok := c.find(place{feed, n}, "")
	if !ok {
		return nil, false
	}
	f, p, err := c.open(e)
	if err != nil {
		c.forget(e, err)
		return nil, false
	}
	f.Close()
	return p, true
}

// Open opens length bytes of the body of a page, starting at offset, or all bytes from there if
// length is negative; ok is false if the page is not cached. The body was verified at most
// [VerifyAge] ago. The reader implements [io.WriterTo]: copying it to a network connection or an
// http.ResponseWriter does not copy the bytes through user space.
func (c *Cache) Open(p *chain.Page, offset, length int64) (body io.ReadCloser, ok bool) {
	e, ok := c.find(keyOf(p))
	if !ok {
		return nil, false
	}
	f, err := c.openVerified(e, p)
	if err != nil {
		c.forget(e, err)
		return nil, false
	}
	offset = min(offset, p.Size)
	if rest := p.Size - offset; length < 0 || length > rest {
		length = rest
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		f.Close()
		return nil, false
	}
	return filepart.New(f, length), true
}

func (c *Cache) openVerified(e entry, p *chain.Page) (*os.File, error) {
	f, kept, err := c.open(e)
	if err != nil {
		return nil, err
	}
	if time.Since(e.verified) < VerifyAge {
		return f, nil
	}
	hash := sha256.New()
	if _, err = io.Copy(hash, io.NewSectionReader(f, 0, kept.Size)); err == nil && hex.EncodeToString(hash.Sum(nil)) != p.SHA256 {
		err = fmt.Errorf("%w: SHA-256 of body does not match", errDamaged)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[e.place]; ok {
		element.Value.(*entry).verified = time.Now()
	}
	return f, nil
}

// lockFile opens and locks a file. The lock is released when the file is closed or the process
// ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		// A cache on a disk that has become read-only can still be used for reading.
		var readErr error
		if f, readErr = os.Open(path); readErr != nil {
			return nil, err
		}
	}
	if err := lockNow(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}
