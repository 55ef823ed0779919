package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/internal/tracing"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/publish"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
)

type publishFlags struct {
	input           inputFlags
	to              string
	credentialsFile string
	retries         int
	resume          string
	metrics         string
	pages           task.PageLimits
}

func newPublish(a *app.App) *cobra.Command {
	var f publishFlags
	c := &cobra.Command{
		Use:   "publish FEED|STORE#FEED [FILE|-]",
		Short: "Append entities to a feed",
		Long: `Publish appends entities to FEED in the store, or with --to to a feed on a server, and
returns when all of them are durable. The feed is created if it does not exist. Without
FILE, or with "-", the entities are read from standard input.

The input is one of:
  ndjson     one JSON text per line; the line is the body. Empty lines are skipped.
  multipart  a multipart document; the parts' headers become those of the entities.
             The boundary is taken from --content-type or from the first line.
  dir        FILE is a directory: one entity for each file, its path the key.
  raw        the whole input is the body of one entity, of any size.

Publishing is idempotent if entities have a Content-ID (--content-id, or a header in
multipart): an entity whose Content-ID is on one of the 16 newest pages is not published
again. If it is unknown whether something was published, publish it again soon.

With --resume STATE (a separate file for each feed and input), the next run with the same
STATE and input continues after the entities that are durable. After a kill, some of the
following entities may be in the feed already, so use Content-IDs.

Ctrl-C finishes the batch that is being written and reports how many entities of the input
were published. With --to, a request that fails after Ctrl-C is not retried.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl publish zones data/zones.ndjson --key /id
  generate | feedctl publish events --key /user/id --content-id /event --op-field /op
  feedctl publish pictures ./pictures --format dir
  feedctl publish films - --format raw --key-value trailer.mp4 --content-type video/mp4 < trailer.mp4
  feedctl publish zones changes.ndjson --key /id --to https://data.example.org
  feedctl publish 's3://bucket/prefix?region=eu-central-1#zones' data/zones.ndjson --key /id -v`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return runPublish(c.Context(), a, &f, args[0], fileOf(args))
		},
	}
	flags := c.Flags()
	f.input.add(flags)
	f.input.addFeed(flags)
	flags.StringVar(&f.to, "to", "", "publish to the server at this `URL` instead of the store")
	flags.StringVar(&f.credentialsFile, "credentials-file", "", "`FILE` with the credential for --to (default: the variable FEEDCTL_CREDENTIALS)")
	flags.IntVar(&f.retries, "retries", 8, "with --to: give up after a request has failed this `NUMBER` of times; negative: never")
	flags.StringVar(&f.resume, "resume", "", "`STATE` file that records how far the input was published")
	flags.StringVar(&f.metrics, "metrics", "", app.MetricsUsage)
	f.pages.Flags(flags, "; not with --to")
	c.MarkFlagsMutuallyExclusive("to", "max-page-bytes")
	c.MarkFlagsMutuallyExclusive("to", "max-page-entities")
	return c
}

// Limits of the memory for entities being published, in bytes. A remote store takes a long time to
// respond, so more pages are written at a time: nine with entities of 1 KB. The process stays
// small; see memoryLimit.
const (
	localMemory  = 4 << 20
	remoteMemory = 14 << 20
	remoteBatch  = 256 << 10
)

func runPublish(ctx context.Context, a *app.App, f *publishFlags, arg, file string) error {
	at, err := f.parse(a, arg)
	if err != nil {
		return err
	}
	if f.to != "" && at.Name != arg {
		return exit.Usagef("%q names a store: with --to give the name of the feed only", sink.Redact(arg))
	}
	name := at.Name
	if err := f.check(); err != nil {
		return err
	}
	var sofar metrics.Published
	if err := a.ServeMetrics(f.metrics, &sofar); err != nil {
		return err
	}
	im := &publish.Import{PageEntities: f.pages.Entities, PageBytes: f.pages.Bytes, Memory: localMemory}
	if f.resume != "" {
		where, err := f.identity(at)
		if err != nil {
			return err
		}
		if im.State, err = publish.OpenState(f.resume, where); err != nil {
			return stateAdvice(err)
		}
	}
	if f.to != "" {
		im.To, err = f.openClient(a, name)
	} else {
		err = f.openFeed(ctx, a, at, im)
	}
	if err != nil {
		return err
	}
	src, err := f.input.open(ctx, a, file)
	if err != nil {
		return err
	}
	im.Entities, im.Tell = src.Entities, src.Tell
	im.To = tracing.FromContext(ctx).Target(name, im.To)

	im.Progress = sofar.Note
	a.Progress("publish", func() progress.Status {
		r := sofar.Result()
		return progress.Status{Entities: r.Published, Bytes: r.Bytes, Total: src.Size, Lag: -1}
	})
	done, err := im.Run(ctx)
	result := publishJSON{
		Feed:       name,
		Read:       done.Skipped + done.Acknowledged,
		Skipped:    done.Skipped,
		Published:  done.Published,
		Duplicates: done.Duplicates,
		Page:       done.Last.Page,
		ContentID:  done.Last.ContentID,
		Time:       time.Now().UTC(),
	}
	if _, wrong := errors.AsType[*publish.StateError](err); wrong {
		return stateAdvice(err) // how much of this input is in the feed is not known
	}
	if err != nil {
		return fmt.Errorf("publish %s to %s: after %s: %w", src.Name, name, human.Plural(result.Read, "entity", "entities"), err)
	}
	return a.Printf(result, "published %s to %s, %s\n", human.Plural(result.Published, "entity", "entities"), name,
		human.Plural(result.Duplicates, "duplicate", "duplicates"))
}

// stateAdvice says what to do if a resume file belongs to another feed or input.
func stateAdvice(err error) error {
	state, ok := errors.AsType[*publish.StateError](err)
	if !ok {
		return err
	}
	return exit.WithHint(exit.Usagef("--resume %w", state),
		"another file for --resume: each feed and input has its own; with a new one, publishing begins at the start of the input")
}

// parse reads the argument that names the feed.
func (f *publishFlags) parse(a *app.App, arg string) (locate.Stored, error) {
	base, name, ok := strings.Cut(arg, "/feeds/")
	if !ok || !locate.IsWeb(base) || layout.CheckName(name) != nil {
		return a.Parse(arg)
	}
	if _, err := locate.ParseURL(base); err != nil {
		return locate.Stored{}, err
	}
	return locate.Stored{}, exit.WithHint(exit.Usagef("%q is a feed on a server: publish to it with --to", sink.Redact(arg)),
		fmt.Sprintf("feedctl publish %s --to %s", name, base))
}

// check checks the flags before anything is read.
func (f *publishFlags) check() error {
	if f.to != "" && f.retries == 0 {
		return exit.Usagef("invalid --retries 0: must be positive, or negative for no limit")
	}
	if err := f.pages.Check(); err != nil {
		return err
	}
	return f.input.check()
}

// identity returns the name of the feed in a resume file.
func (f *publishFlags) identity(at locate.Stored) (string, error) {
	if f.to == "" {
		return at.Identity(), nil
	}
	u, err := locate.ParseURL(f.to)
	if err != nil {
		return "", err
	}
	u.RawQuery = "" // which may be a secret
	return u.JoinPath(layout.FeedPath(at.Name)).String(), nil
}

// openFeed makes an import publish to a feed in a store.
func (f *publishFlags) openFeed(ctx context.Context, a *app.App, at locate.Stored, im *publish.Import) error {
	store, err := a.OpenStore(ctx, at.Store, task.Access{Create: true})
	if err != nil {
		return err
	}
	feed, err := producer.Open(ctx, store, at.Name, producer.Config{
		MaxPageBytes:    f.pages.Bytes,
		MaxPageEntities: f.pages.Entities,
		Observe:         tracing.FromContext(ctx).Writes(),
		Logger:          a.Log,
	})
	if err != nil {
		return fmt.Errorf("open feed %s: %w", at.Name, err)
	}
	a.AtEnd(feed.Close, "feed "+at.Name)
	im.To = publish.ToFeed(at.Name, feed)
	if storage.PropertiesOf(store).Remote {
		im.Memory, im.BatchBytes = remoteMemory, remoteBatch
	}
	return nil
}

// openClient returns a target that publishes to the server at --to.
func (f *publishFlags) openClient(a *app.App, name string) (publish.Target, error) {
	u, err := locate.ParseURL(f.to)
	if err != nil {
		return nil, err
	}
	credentials, err := (credential.Source{File: f.credentialsFile, Variable: "FEEDCTL_CREDENTIALS"}).Read()
	if err != nil {
		return nil, err
	}
	client, err := publish.New(publish.Config{
		URL:         u.JoinPath("feeds", name).String(),
		Credentials: credentials,
		HTTPClient:  &http.Client{Transport: a.Transport},
		Attempts:    f.retries,
	})
	if err != nil {
		return nil, err
	}
	a.AtEnd(client.Close, "feed "+name)
	return client.Ordered(), nil
}
