package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/input"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/suggest"
	"github.com/feedctl/feedctl/internal/task"
)

// inputFlags holds the flags that say how entities are read from a file; "publish" and "snapshot
// create" share them.
type inputFlags struct {
	input.Config
	operation string
}

func (f *inputFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.Format, "format", input.FormatNDJSON, "`FORMAT` of the input: ndjson, multipart, dir or raw")
	flags.StringVar(&f.Key, "key", "", "ndjson: JSON `POINTER` to the key of the thing that a line is about, such as /id")
	flags.StringVar(&f.KeyValue, "key-value", "", "raw: the `KEY` of the thing that the input is about (default: the file's name)")
	flags.StringVar(&f.ContentType, "content-type", "", "media `TYPE` of all entities (default application/json for ndjson, else by file name); multipart: that of the whole input")
}

// addFeed adds the flags that apply only to feeds.
func (f *inputFlags) addFeed(flags *pflag.FlagSet) {
	flags.StringVar(&f.ContentID, "content-id", "", "ndjson: JSON `POINTER` to the unique name of the event; with it, publishing again changes nothing. raw: that name")
	flags.StringVar(&f.operation, "op", "PUT", "`OPERATION` of all entities: PUT, PATCH or DELETE")
	flags.StringVar(&f.OperationField, "op-field", "", "ndjson: JSON `POINTER` to the operation; a line without one has that of --op")
}

// check checks the flags before anything is read.
func (f *inputFlags) check() (err error) {
	if f.Operation, err = feed.ParseOperation(cmp.Or(f.operation, "PUT")); err != nil {
		return exit.Usagef("--op %q is not one of PUT, PATCH, DELETE", f.operation)
	}
	if !slices.Contains(input.Formats, f.Format) {
		return exit.Usagef("--format %q is not one of %s%s", f.Format, strings.Join(input.Formats, ", "), suggest.DidYouMean(f.Format, input.Formats, ""))
	}
	for _, flag := range []struct{ name, value, formats string }{
		{"--key", f.Key, "ndjson"},
		{"--op-field", f.OperationField, "ndjson"},
		{"--content-id", f.ContentID, "ndjson and raw"},
		{"--key-value", f.KeyValue, "raw"},
	} {
		switch {
		case flag.value == "":
		case !strings.Contains(flag.formats, f.Format):
			return exit.Usagef("%s is for --format %s only", flag.name, flag.formats)
		case f.Format == input.FormatNDJSON:
			if err := task.CheckPointer(flag.name, flag.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// fileOf returns the optional second argument, the input.
func fileOf(args []string) string {
	if len(args) == 2 {
		return args[1]
	}
	return "-"
}

// open opens the input named on the command line; "-" is standard input.
func (f *inputFlags) open(ctx context.Context, a *app.App, name string) (src *input.Source, err error) {
	f.MaxWhole = task.MaxWhole
	f.Skipped = func(entry string, why error) {
		a.Log.Warn("entry is not published", "entry", filepath.Join(name, entry), "reason", why)
	}
	if name == "-" && f.Format != input.FormatDirectory {
		src, err = f.Stream(ctx, a.In, "standard input")
	} else {
		src, err = f.Open(ctx, name)
	}
	switch {
	case errors.Is(err, input.ErrIsDirectory):
		return nil, exit.Usagef("%w: use --format dir", err)
	case errors.Is(err, input.ErrNotDirectory):
		return nil, exit.Usagef("%w", err)
	case errors.Is(err, input.ErrNoBoundary):
		return nil, fmt.Errorf("%w: give the boundary with --content-type", err)
	case err != nil:
		return nil, err
	}
	a.AtEnd(src.Close, src.Name)
	return src, nil
}
