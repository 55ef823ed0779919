package input

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"os"
	"path/filepath"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

// The formats of a [Source].
const (
	FormatNDJSON    = "ndjson"
	FormatMultipart = "multipart"
	FormatDirectory = "dir"
	FormatRaw       = "raw" // the whole input is the body of one entity
)

// Formats are the formats of a [Source].
var Formats = []string{FormatNDJSON, FormatMultipart, FormatDirectory, FormatRaw}

// These are errors of opening a source, to be matched with [errors.Is].
var (
	ErrIsDirectory  = errors.New("is a directory")
	ErrNotDirectory = errors.New("is not a directory")
	// ErrNoBoundary means that a multipart document does not begin with a delimiter, and its Content-Type is not
	// known.
	ErrNoBoundary = errors.New("the first line is not a multipart delimiter")
)

// Config configures how a file, a directory or a stream is read.
type Config struct {
	Format string
	// Options are those of NDJSON. Operation and ContentType apply to all formats; for a multipart document,
	// ContentType is the type of the document. For FormatRaw, ContentID is the Content-ID itself.
	Options
	// KeyValue is the key of the entity of FormatRaw; "" means the name of the file.
	KeyValue string
	// MaxWhole is the maximum size, in bytes, of a body that is held in memory; larger bodies become Streams.
	MaxWhole int
	// Skipped, if set, is called for each entry of a directory that is left out.
	Skipped func(entry string, why error)
}

// A Source is an open input.
type Source struct {
	Name     string // for messages
	Size     int64  // of the input, in bytes; 0 if not known
	Entities iter.Seq2[*feed.Entity, error]
	close    func() error
	waits    *contextReader // the reader that may have to wait for input; nil for files, which never make it wait
}

// Close closes the input.
func (s *Source) Close() error { return s.close() }

// Tell makes the source call busy with false when it begins to wait for input, and with true when input has
// arrived. A source that never waits just calls it once, with true.
func (s *Source) Tell(busy func(bool)) {
	if s.waits != nil {
		s.waits.busy = busy
		return
	}
	busy(true)
}

// Open opens a file or, with FormatDirectory, a directory. Reading ends when ctx does.
func (c Config) Open(ctx context.Context, name string) (*Source, error) {
	if c.Format == FormatDirectory {
		return c.openDirectory(name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open input: %w", err)
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("open input: %s %w", name, ErrIsDirectory)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s := &Source{Name: name, close: file.Close}
	whole := &contextReader{ctx: ctx, r: file}
	if info.Mode().IsRegular() {
		s.Size = info.Size()
	} else {
		s.waits = whole
	}
	if err := c.read(s, whole, name); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

// Stream reads from r, which is called name in errors. Reading ends when ctx does, between two
// reads. Closing the source does not close r.
func (c Config) Stream(ctx context.Context, r io.Reader, name string) (*Source, error) {
	whole := &contextReader{ctx: ctx, r: r}
	s := &Source{Name: name, close: func() error { return nil }, waits: whole}
	if err := c.read(s, whole, ""); err != nil {
		return nil, err
	}
	return s, nil
}

// read sets the entities of a source; file is the name of its file, if it has one.
func (c Config) read(s *Source, r io.Reader, file string) (err error) {
	switch c.Format {
	case FormatNDJSON:
		s.Entities = NDJSON(r, c.Options)
	case FormatMultipart:
		s.Entities, err = c.multipart(r)
	case FormatRaw:
		s.Entities, err = c.raw(r, file, s.Size)
	default:
		err = fmt.Errorf("unknown format %q", c.Format)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", s.Name, err)
	}
	return nil
}

func (c Config) openDirectory(name string) (*Source, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("open input: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("open input: %s %w", name, ErrNotDirectory)
	}
	options := DirectoryOptions{Operation: c.operation(), ContentType: c.ContentType, Skipped: c.Skipped}
	return &Source{Name: name, Entities: Directory(os.DirFS(name), options), close: func() error { return nil }}, nil
}

func (c Config) operation() feed.Operation { return cmp.Or(c.Operation, feed.Put) }

// multipart reads a multipart document. It takes the boundary from ContentType or, if that is empty, from the
// first line, which must then be a delimiter.
func (c Config) multipart(r io.Reader) (iter.Seq2[*feed.Entity, error], error) {
	limits := page.ReaderOptions{MaxWhole: c.MaxWhole}
	if c.ContentType != "" {
		return Multipart(r, c.ContentType, limits), nil
	}
	buffered := bufio.NewReader(r)
	// A boundary has at most 70 characters (RFC 2046, section 5.1.1).
	start, err := buffered.Peek(len("--") + 70 + len("\r\n"))
	if err != nil && err != io.EOF {
		return nil, err
	}
	line, _, ok := bytes.Cut(start, []byte("\n"))
	boundary, delimiter := bytes.CutPrefix(bytes.TrimRight(line, " \t\r"), []byte("--"))
	if !ok || !delimiter || len(boundary) == 0 {
		return nil, ErrNoBoundary
	}
	return Multipart(buffered, page.ContentType(string(boundary)), limits), nil
}

// raw makes one entity from the whole input.
func (c Config) raw(r io.Reader, file string, size int64) (iter.Seq2[*feed.Entity, error], error) {
	e := &feed.Entity{Operation: c.operation(), ContentType: c.ContentType, ContentID: c.ContentID}
	key := c.KeyValue
	if key == "" && file != "" {
		key = filepath.Base(file)
	}
	e.ContentLocation = feed.EncodeKey(key)
	if e.ContentType == "" {
		e.ContentType = mime.TypeByExtension(filepath.Ext(file))
	}
	if e.ContentType == "" {
		e.ContentType = "application/octet-stream"
	}
	if err := e.Check(true); err != nil {
		return nil, err
	}
	if err := setBody(e, r, cmp.Or(size, -1), c.MaxWhole); err != nil {
		return nil, err
	}
	return func(yield func(*feed.Entity, error) bool) { yield(e, nil) }, nil
}

// A contextReader is a reader that returns an error once its context has ended. It does not interrupt a read.
type contextReader struct {
	ctx  context.Context
	r    io.Reader
	busy func(bool) // or nil; see Source.Tell
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	if c.busy != nil {
		c.busy(false)
		defer c.busy(true)
	}
	return c.r.Read(p)
}
