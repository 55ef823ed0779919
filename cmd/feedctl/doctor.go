package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/doctor"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/stores"
)

type doctorFlags struct {
	client task.Client
	wait   time.Duration
}

func newDoctor(a *app.App) *cobra.Command {
	var f doctorFlags
	c := &cobra.Command{
		Use:   "doctor [URL|STORE]",
		Short: "Find out what is wrong with a store, or with the connection to a feed",
		Long: `Doctor tests what producers and consumers rely on, and prints its findings, why they matter,
and how to fix them.

In a store (by default that of --store) it checks permissions, the clock, range reads, and
conditional writes. It writes a few small objects and removes them. For a directory it also
checks the file system. For the URL of a feed, or of a server with feeds, it checks the
certificate, the clock, whether long-polls work, which takes as long as --wait, and whether
a proxy or CDN removes headers, caches the newest page, or changes pages.

A finding is "ok", "skipped" (it could not be tested), "warning" (it works, but could be
better) or "problem". With a problem the exit status is 1.` + exit.Help(exit.Interrupted),
		Example: `  feedctl doctor https://data.example.org/feeds/zones
  feedctl doctor 's3://bucket/prefix?region=eu-central-1'
  feedctl doctor file:/var/lib/feedctl --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			target := a.Store
			if len(args) == 1 {
				target = args[0]
			}
			return runDoctor(c.Context(), a, &f, target)
		},
	}
	flags := c.Flags()
	units.DurationVar(flags, &f.wait, "wait", 30*time.Second, "`DURATION` that a request waits for new entities; consumers wait for 30s")
	f.client.RequestFlags(flags)
	f.client.OriginFlags(flags)
	return c
}

func runDoctor(ctx context.Context, a *app.App, f *doctorFlags, target string) error {
	if f.wait < time.Second {
		return exit.Usagef("--wait %v is less than a second", f.wait)
	}
	var findings []doctor.Finding
	var err error
	if stores.IsURL(target) {
		findings, err = examineStore(ctx, a, target)
	} else {
		findings, err = examineURL(ctx, a, f, target)
	}
	if err != nil {
		return err
	}
	if err := printFindings(a, findings); err != nil {
		return err
	}
	if n := doctor.Problems(findings); n > 0 {
		return fmt.Errorf("examine %s: found %s", target, human.Plural(int64(n), "problem", "problems"))
	}
	return nil
}

func examineURL(ctx context.Context, a *app.App, f *doctorFlags, target string) ([]doctor.Finding, error) {
	if !locate.IsWeb(target) {
		return nil, exit.Usagef("%q is neither a URL with http:// or https:// nor a store: %s%s", sink.Redact(target), stores.Forms, locate.DirectoryHint(target, ""))
	}
	u, err := locate.ParseURL(target)
	if err != nil {
		return nil, err
	}
	header, err := f.client.Header()
	if err != nil {
		return nil, err
	}
	c, err := f.client.Credential.Read()
	if err != nil {
		return nil, err
	}
	return doctor.Feed(ctx, u.String(), doctor.Config{
		Transport: a.Transport, Authorization: credential.Authorization(c), Header: header, Wait: f.wait, AllowOrigins: f.client.AllowOrigins,
	})
}

// examineStore examines a store. If the store cannot be opened, that is a finding, too.
func examineStore(ctx context.Context, a *app.App, target string) (findings []doctor.Finding, err error) {
	target, _, _ = strings.Cut(target, "#") // a feed in it is as healthy as the store
	store, err := a.OpenStore(ctx, target, task.Access{})
	switch {
	case errors.Is(err, storage.ErrPermission), errors.Is(err, storage.ErrLayout):
		return []doctor.Finding{doctor.Unopened(err)}, nil
	case err != nil:
		return nil, err
	}
	if findings, err = doctor.Store(ctx, store); err != nil {
		return nil, err
	}
	if dir, ok := stores.Directory(target); ok {
		findings = append(findings, doctor.Directory(ctx, dir)...)
	}
	return findings, nil
}

func printFindings(a *app.App, findings []doctor.Finding) error {
	return a.Print(doctorJSON{doctor.Problems(findings), findings}, func(w io.Writer) error {
		rows, fixes := make([][]string, len(findings)), ""
		for i, f := range findings {
			rows[i] = []string{strings.ToUpper(string(f.Level)), f.Check, human.Printable(f.Found)}
			if f.Fix != "" {
				fixes += fmt.Sprintf("\n%s %s: %s\n  why: %s\n  fix: %s\n", f.Level, f.Check, human.Printable(f.Found), f.Why, human.Printable(f.Fix))
			}
		}
		if err := human.WriteTable(w, []string{"RESULT", "CHECK", "FOUND"}, rows); err != nil {
			return err
		}
		_, err := io.WriteString(w, fixes)
		return err
	})
}
