package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/input"
	"github.com/feedctl/feedctl/internal/jsonptr"
	"github.com/feedctl/feedctl/internal/suggest"
	"github.com/feedctl/feedctl/page"
)

// maxWhole is the largest body that is held in memory, in bytes; larger ones
// pass through as streams.
const maxWhole = 256 << 10

// inputFormats are the values of --format.
var inputFormats = []string{"ndjson", "multipart", "dir", "raw"}

// inputFlags say how entities are read from a file; "publish" and "snapshot
// create" share them.
type inputFlags struct {
	format      string
	key         string
	contentType string
	keyValue    string
	contentID   string
	operation   string
	opField     string
}

func (f *inputFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.format, "format", "ndjson", "`FORMAT` of the input: ndjson, multipart, dir or raw")
	flags.StringVar(&f.key, "key", "", "ndjson: JSON `POINTER` to the key of the thing that a line is about, as /id")
	flags.StringVar(&f.keyValue, "key-value", "", "raw: the `KEY` of the thing that the input is about (default: the file's name)")
	flags.StringVar(&f.contentType, "content-type", "", "media `TYPE` of all entities (default application/json for ndjson, else by file name); multipart: that of the whole input")
}

// addFeed adds the flags that mean something in feeds only.
func (f *inputFlags) addFeed(flags *pflag.FlagSet) {
	flags.StringVar(&f.contentID, "content-id", "", "ndjson: JSON `POINTER` to the unique name of the event; with it, publishing again changes nothing. raw: that name")
	flags.StringVar(&f.operation, "op", "PUT", "`OPERATION` of all entities: PUT, PATCH or DELETE")
	flags.StringVar(&f.opField, "op-field", "", "ndjson: JSON `POINTER` to the operation; a line without one has that of --op")
}

// check finds what is wrong with the flags before anything is read.
func (f *inputFlags) check() error {
	if f.operation != "" {
		if _, err := feed.ParseOperation(f.operation); err != nil {
			return usagef("--op %q is not one of PUT, PATCH, DELETE", f.operation)
		}
	}
	if !slices.Contains(inputFormats, f.format) {
		return usagef("--format %q is not one of %s%s", f.format, strings.Join(inputFormats, ", "), suggest.DidYouMean(f.format, inputFormats, ""))
	}
	pointers := map[string]string{"--key": f.key, "--op-field": f.opField}
	if f.format == "ndjson" {
		pointers["--content-id"] = f.contentID
	}
	for name, pointer := range pointers {
		if pointer == "" {
			continue
		}
		if f.format != "ndjson" {
			return usagef("%s is for --format ndjson only", name)
		}
		if _, err := jsonptr.Compile(pointer); err != nil {
			return usagef("%s: %w", name, err)
		}
	}
	if f.contentID != "" && f.format != "ndjson" && f.format != "raw" {
		return usagef("--content-id is for --format ndjson and raw only")
	}
	if f.keyValue != "" && f.format != "raw" {
		return usagef("--key-value is for --format raw only")
	}
	return nil
}

// A source is an input that was opened.
type source struct {
	name     string // for messages
	size     int64  // in bytes; 0 if not known
	entities iter.Seq2[*feed.Entity, error]
	close    func() error
	input    *contextReader // that may have to wait; nil for files, which are there
}

// tell has busy called with false whenever the source begins to wait for its input, and
// with true when some has come.
func (s *source) tell(busy func(bool)) {
	if s.input != nil {
		s.input.busy = busy
		return
	}
	busy(true)
}

// open opens the input named on the command line; "-" is standard input. The log gets warnings of what is skipped.
func (f *inputFlags) open(ctx context.Context, log *slog.Logger, stdin io.Reader, name string) (*source, error) {
	if f.format == "dir" {
		return f.openDirectory(log, name)
	}
	s := &source{name: name, close: func() error { return nil }}
	r, regular := stdin, false
	if name == "-" {
		s.name = "standard input"
	} else {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("open input: %w", err)
		}
		info, err := file.Stat()
		if err == nil && info.IsDir() {
			err = usagef("open input: %s is a directory: use --format dir", name)
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		if regular = info.Mode().IsRegular(); regular {
			s.size = info.Size()
		}
		r, s.close = file, file.Close
	}
	whole := &contextReader{ctx: ctx, r: r}
	if !regular {
		s.input = whole
	}
	r = whole
	var err error
	switch f.format {
	case "ndjson":
		s.entities = input.NDJSON(r, f.ndjson())
	case "multipart":
		s.entities, err = f.multipart(r)
	case "raw":
		s.entities, err = f.raw(r, name, s.size)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", s.name, err), s.close())
	}
	return s, nil
}

func (f *inputFlags) openDirectory(log *slog.Logger, name string) (*source, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("open input: %w", err)
	}
	if !info.IsDir() {
		return nil, usagef("open input: %s is not a directory", name)
	}
	options := input.DirectoryOptions{
		Operation: f.op(), ContentType: f.contentType,
		Skipped: func(entry string, why error) {
			log.Warn("entry is not published", "entry", filepath.Join(name, entry), "reason", why)
		},
	}
	return &source{
		name:     name,
		entities: input.Directory(os.DirFS(name), options),
		close:    func() error { return nil },
	}, nil
}

// op returns the operation that check has accepted.
func (f *inputFlags) op() feed.Operation {
	op, err := feed.ParseOperation(f.operation)
	if err != nil {
		return feed.Put
	}
	return op
}

func (f *inputFlags) ndjson() input.Options {
	return input.Options{
		Key:            f.key,
		Operation:      f.op(),
		OperationField: f.opField,
		ContentType:    f.contentType,
		ContentID:      f.contentID,
	}
}

// multipart takes the boundary from --content-type or, without it, from the
// first line, which must then be a delimiter.
func (f *inputFlags) multipart(r io.Reader) (iter.Seq2[*feed.Entity, error], error) {
	limits := page.ReaderOptions{MaxWhole: maxWhole}
	if f.contentType != "" {
		return input.Multipart(r, f.contentType, limits), nil
	}
	buffered := bufio.NewReader(r)
	// A boundary has 70 characters at most (RFC 2046, section 5.1.1).
	start, err := buffered.Peek(len("--") + 70 + len("\r\n"))
	if err != nil && err != io.EOF {
		return nil, err
	}
	line, _, ok := bytes.Cut(start, []byte("\n"))
	boundary, delimiter := bytes.CutPrefix(bytes.TrimRight(line, " \t\r"), []byte("--"))
	if !ok || !delimiter || len(boundary) == 0 {
		return nil, errors.New("the first line is no multipart delimiter: give the boundary with --content-type")
	}
	return input.Multipart(buffered, page.ContentType(string(boundary)), limits), nil
}

// raw makes one entity of the whole input.
func (f *inputFlags) raw(r io.Reader, name string, size int64) (iter.Seq2[*feed.Entity, error], error) {
	e := &feed.Entity{Operation: f.op(), ContentType: f.contentType, ContentID: f.contentID}
	key := f.keyValue
	if key == "" && name != "-" {
		key = filepath.Base(name)
	}
	e.ContentLocation = feed.EncodeKey(key)
	if e.ContentType == "" {
		e.ContentType = mime.TypeByExtension(filepath.Ext(name))
	}
	if e.ContentType == "" {
		e.ContentType = "application/octet-stream"
	}
	if err := e.Check(true); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(r, maxWhole+1))
	if err != nil {
		return nil, err
	}
	if len(body) <= maxWhole {
		e.Body = body
	} else {
		e.Stream, e.Size = io.MultiReader(bytes.NewReader(body), r), -1
		if size > 0 {
			e.Size = size
		}
	}
	return func(yield func(*feed.Entity, error) bool) { yield(e, nil) }, nil
}

// naming puts the name of the input before the errors of its entities.
func naming(name string, entities iter.Seq2[*feed.Entity, error]) iter.Seq2[*feed.Entity, error] {
	return func(yield func(*feed.Entity, error) bool) {
		for e, err := range entities {
			if err != nil {
				err = fmt.Errorf("%s: %w", strings.TrimSuffix(name, "/"), err)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// A contextReader ends when its context does, between two reads.
type contextReader struct {
	ctx  context.Context
	r    io.Reader
	busy func(bool) // or nil; see source.tell
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
