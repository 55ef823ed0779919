package main

import (
	"context"
	"fmt"
	"io"

	"github.com/feedctl/feedctl/internal/directory"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/sink"
)

// listServer prints what a server lists: pages of its directory, one after the other.
func listServer(ctx context.Context, a *app, rawURL string, f *listFlags) error {
	base, err := locate.ParseURL(rawURL)
	if err != nil {
		return err
	}
	config, err := f.client.config(a)
	if err != nil {
		return err
	}
	l := &lister{app: a, left: f.limit}
	for page, err := range directory.Pages(ctx, config, base, f.limit, f.after) {
		if err != nil {
			return fmt.Errorf("list %s: %w", sink.Redact(rawURL), err)
		}
		for _, entry := range page.Feeds {
			if err := l.named("feed", entry); err != nil || l.done {
				return err
			}
		}
		for _, entry := range page.Snapshots {
			if entry.Name+"/" <= f.after+"/" { // the order of keys
				continue
			}
			if err := l.named("snapshot", entry); err != nil || l.done {
				return err
			}
		}
	}
	return nil
}

// named prints the line of what a server lists.
func (l *lister) named(kind string, entry server.DirectoryEntry) error {
	if err := layout.CheckName(entry.Name); err != nil {
		return fmt.Errorf("the server lists a %s: %v", kind, err) //nolint:errorlint // not an error of usage
	}
	return l.print(listedJSON{kind, entry.Name, entry.URL}, fmt.Sprintf(listedFormat, "KIND", "NAME", "URL"), func(w io.Writer) error {
		_, err := fmt.Fprintf(w, listedFormat, kind, entry.Name, human.Printable(entry.URL))
		return err
	})
}
