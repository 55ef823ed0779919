package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/input"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/jsonptr"
	"github.com/feedctl/feedctl/internal/suggest"
)

// maxWhole is the largest body that is held in memory, in bytes; larger ones
// pass through as streams.
const maxWhole = 256 << 10

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
			return exit.Usagef("--op %q is not one of PUT, PATCH, DELETE", f.operation)
		}
	}
	if !slices.Contains(input.Formats, f.format) {
		return exit.Usagef("--format %q is not one of %s%s", f.format, strings.Join(input.Formats, ", "), suggest.DidYouMean(f.format, input.Formats, ""))
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
			return exit.Usagef("%s is for --format ndjson only", name)
		}
		if err := checkPointer(name, pointer); err != nil {
			return err
		}
	}
	if f.contentID != "" && f.format != "ndjson" && f.format != "raw" {
		return exit.Usagef("--content-id is for --format ndjson and raw only")
	}
	if f.keyValue != "" && f.format != "raw" {
		return exit.Usagef("--key-value is for --format raw only")
	}
	return nil
}

// open opens the input named on the command line; "-" is standard input. The log gets warnings of what is skipped.
func (f *inputFlags) open(ctx context.Context, log *slog.Logger, stdin io.Reader, name string) (*input.Source, error) {
	config := input.Config{
		Format:   f.format,
		KeyValue: f.keyValue,
		MaxWhole: maxWhole,
		Options: input.Options{
			Key:            f.key,
			Operation:      f.op(),
			OperationField: f.opField,
			ContentType:    f.contentType,
			ContentID:      f.contentID,
		},
		Skipped: func(entry string, why error) {
			log.Warn("entry is not published", "entry", filepath.Join(name, entry), "reason", why)
		},
	}
	var src *input.Source
	var err error
	if name == "-" && f.format != input.FormatDirectory {
		src, err = config.Stream(ctx, stdin, "standard input")
	} else {
		src, err = config.Open(ctx, name)
	}
	switch {
	case errors.Is(err, input.ErrIsDirectory):
		return nil, exit.Usagef("%w: use --format dir", err)
	case errors.Is(err, input.ErrNotDirectory):
		return nil, exit.Usagef("%w", err)
	case errors.Is(err, input.ErrNoBoundary):
		return nil, fmt.Errorf("%w: give the boundary with --content-type", err)
	}
	return src, err
}

// op returns the operation that check has accepted.
func (f *inputFlags) op() feed.Operation {
	op, err := feed.ParseOperation(f.operation)
	if err != nil {
		return feed.Put
	}
	return op
}

// checkPointer checks the JSON pointer that a flag has, if it has one.
func checkPointer(flag, pointer string) error {
	if pointer == "" {
		return nil
	}
	if _, err := jsonptr.Compile(pointer); err != nil {
		return exit.Usagef("%s: %w", flag, err)
	}
	return nil
}
