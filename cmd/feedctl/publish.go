package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
)

type publishFlags struct {
	input           inputFlags
	to              string
	credentialsFile string
	retries         int
	resume          string
	pages           pageLimits
}

func newPublish(a *app) *cobra.Command {
	var f publishFlags
	c := &cobra.Command{
		Use:   "publish FEED|STORE#FEED [FILE|-]",
		Short: "Append entities to a feed",
		Long: `Publish appends entities to FEED in the store, or with --to to a feed on a server, and
returns when all of them are durable. The feed is created if it does not exist. Without
FILE, or with "-", the entities are read from standard input.

The input is one of:
  ndjson     one JSON text a line; the line is the body. Empty lines are skipped.
  multipart  a multipart document; the parts' headers become those of the entities.
             The boundary is taken from --content-type or from the first line.
  dir        FILE is a directory: one entity for each file, its path the key.
  raw        the whole input is the body of one entity, of any size.

Publishing is idempotent where entities have a Content-ID (--content-id, or a header in
multipart): one that is in the newest pages of the feed already is not published again. So
if it is not clear whether something was published, publish it again, soon.

With --resume STATE the number of entities that are durable is kept in the file STATE, and
the next run with the same STATE and input continues behind them. After a kill, some of the
entities that follow may be in the feed already, so this wants Content-IDs. Each feed and
input has a STATE of its own: that of another is refused.

Ctrl-C finishes the batch that is being written and says how many entities of the input
were published. With --to, a request that fails then is not repeated.` + exitStatus(exitOK, exitError, exitUsage, exitNotFound, exitInterrupted),
		Example: `  feedctl publish zones data/zones.ndjson --key /id
  generate | feedctl publish events --key /user/id --content-id /event --op-field /op
  feedctl publish pictures ./pictures --format dir
  feedctl publish films - --format raw --key-value trailer.mp4 --content-type video/mp4 < trailer.mp4
  feedctl publish zones changes.ndjson --key /id --to https://data.example.org
  feedctl publish 's3://bucket/prefix?region=eu-central-1#zones' data/zones.ndjson --key /id -v`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			file := "-"
			if len(args) == 2 {
				file = args[1]
			}
			return runPublish(c.Context(), a, &f, args[0], file)
		},
	}
	flags := c.Flags()
	f.input.add(flags)
	f.input.addFeed(flags)
	flags.StringVar(&f.to, "to", "", "publish to the server at this `URL` instead of the store")
	flags.StringVar(&f.credentialsFile, "credentials-file", "", "`FILE` with the credential for --to (default: the variable FEEDCTL_CREDENTIALS)")
	flags.IntVar(&f.retries, "retries", 8, "with --to: give up after a request failed this `NUMBER` of times; negative: never")
	flags.StringVar(&f.resume, "resume", "", "`STATE` file that keeps how far the input was published")
	f.pages.add(flags, "; not with --to")
	c.MarkFlagsMutuallyExclusive("to", "max-page-bytes")
	c.MarkFlagsMutuallyExclusive("to", "max-page-entities")
	return c
}

// A publisher makes entities durable, in order.
type publisher interface {
	// Begin begins to publish entities behind those of all calls before, if these
	// succeed. More says that another call is going to follow at once. What it returns
	// waits until they are durable. What has begun is not broken off when ctx ends.
	Begin(ctx context.Context, entities []*feed.Entity, more bool) (wait func() (server.Receipt, error), err error)
	Close() error
}

// How much memory, in bytes, what is on its way may take. A store behind a network
// takes long to answer, and many pages at a time: with entities of 1 KB these are
// eleven. The process stays small; see memoryLimit.
const (
	roomNear = 4 << 20
	roomFar  = 16 << 20
)

func runPublish(ctx context.Context, a *app, f *publishFlags, arg, file string) (err error) {
	at, err := f.parse(a, arg)
	if err != nil {
		return err
	}
	if f.to != "" && at.name != arg {
		return usagef("%q names a store: with --to give the name of the feed only", sink.Redact(arg))
	}
	name := at.name
	if err := f.check(); err != nil {
		return err
	}
	p := &publishing{}
	if f.resume != "" {
		where, err := f.identity(at)
		if err != nil {
			return err
		}
		if p.resume, err = openResumeFile(f.resume, where); err != nil {
			return err
		}
		p.skip = p.resume.Published
	}
	to, room, err := f.openPublisher(ctx, a, at)
	if err != nil {
		return err
	}
	p.queue = newQueue(room)
	if f.resume != "" {
		p.queue.fit(f.pages.entities, f.pages.bytes)
	}
	defer closing(&err, to.Close, "feed "+name)
	src, err := f.input.open(ctx, a.log, a.in, file)
	if err != nil {
		return err
	}
	defer closing(&err, src.close, src.name)

	stop := a.progress("publish", func() status {
		return status{Entities: p.published.Load(), Bytes: p.bytes.Load(), Total: src.size, Lag: -1}
	})
	defer stop()
	err = p.run(ctx, src, to)
	stop()
	result := publishJSON{
		Feed:       name,
		Read:       p.skip + p.acknowledged,
		Skipped:    p.skip,
		Published:  p.published.Load(),
		Duplicates: p.duplicates,
		Page:       p.last.Page,
		ContentID:  p.last.ContentID,
		Time:       time.Now().UTC(),
	}
	var wrong *usageError
	if errors.As(err, &wrong) {
		return err // of --resume: nobody knows how much of this input is in the feed
	}
	if err != nil {
		return fmt.Errorf("publish %s to %s: after %s: %w", src.name, name, plural(result.Read, "entity", "entities"), err)
	}
	return a.print(result, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "published %s to %s, %s\n", plural(result.Published, "entity", "entities"), name,
			plural(result.Duplicates, "duplicate", "duplicates"))
		return err
	})
}

// parse reads the argument that names the feed.
func (f *publishFlags) parse(a *app, arg string) (stored, error) {
	base, name, ok := strings.Cut(arg, "/feeds/")
	if !ok || !isWeb(base) || layout.CheckName(name) != nil {
		return a.parseStored(arg)
	}
	if _, err := parseURL(base); err != nil {
		return stored{}, err
	}
	return stored{}, &usageError{&hinted{
		err:  fmt.Errorf("%q is on a server, to which --to publishes", sink.Redact(arg)),
		hint: fmt.Sprintf("feedctl publish %s --to %s", name, base),
	}}
}

// check finds what is wrong with the flags before anything is read.
func (f *publishFlags) check() error {
	if f.to != "" && f.retries == 0 {
		return usagef("--retries 0 must be positive, or negative for no limit")
	}
	if err := f.pages.check(); err != nil {
		return err
	}
	return f.input.check()
}

// identity returns what the feed is called in a resume file.
func (f *publishFlags) identity(at stored) (string, error) {
	if f.to == "" {
		return at.identity(), nil
	}
	u, err := parseURL(f.to)
	if err != nil {
		return "", err
	}
	u.RawQuery = "" // which may be a secret
	return u.JoinPath(layout.FeedPath(at.name)).String(), nil
}

// openPublisher also returns how much memory what is on its way may take.
func (f *publishFlags) openPublisher(ctx context.Context, a *app, at stored) (p publisher, room int64, err error) {
	name := at.name
	if f.to != "" {
		p, err := newHTTPPublisher(a.web, f.to, name, f.credentialsFile, f.retries)
		return p, roomNear, err
	}
	store, err := a.openStoreAt(ctx, at.store, access{create: true})
	if err != nil {
		return nil, 0, err
	}
	feed, err := producer.Open(ctx, store, name, producer.Config{
		MaxPageBytes:    f.pages.bytes,
		MaxPageEntities: f.pages.entities,
		Logger:          a.log,
	})
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("open feed %s: %w", name, err), store.Close())
	}
	room = roomNear
	if storage.PropertiesOf(store).Remote {
		room = roomFar
	}
	return &storePublisher{name: name, feed: feed, store: store}, room, nil
}

// A storePublisher publishes to a feed in the store.
type storePublisher struct {
	name  string
	feed  *producer.Feed
	store io.Closer
	last  *producer.Publication
}

func (s *storePublisher) Begin(ctx context.Context, entities []*feed.Entity, more bool) (func() (server.Receipt, error), error) {
	begun, err := s.feed.Begin(context.WithoutCancel(ctx), producer.Batch{Entities: entities, After: s.last, More: more})
	if err != nil {
		return nil, err
	}
	s.last = begun
	return func() (server.Receipt, error) {
		r, err := begun.Wait()
		receipt := server.Receipt{Published: r.Published, Duplicates: r.Duplicates, ContentID: r.ContentID}
		if r.Page > 0 {
			receipt.Page = layout.FeedPagePath(s.name, r.Page)
		}
		return receipt, err
	}, nil
}

func (s *storePublisher) Close() error { return errors.Join(s.feed.Close(), s.store.Close()) }

// publishing is one run of the command.
type publishing struct {
	skip   int64       // entities at the start of the input that are in the feed
	resume *resumeFile // nil without --resume
	queue  *queue

	published    atomic.Int64
	bytes        atomic.Int64
	acknowledged int64 // published and duplicates
	duplicates   int64
	last         server.Receipt
}

// run reads the input in one goroutine, begins to publish it in another, and waits in
// this one until it is durable. What has begun when a signal comes is finished, so
// that its outcome is known.
func (p *publishing) run(ctx context.Context, src *source, to publisher) error {
	readCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := p.queue
	defer q.watch(readCtx)()
	src.tell(q.reads)
	// The reader may be stuck in a read of standard input when a signal comes.
	// Nobody waits for it then; it ends with the process.
	go p.read(readCtx, src, q)
	begun := make(chan publication, 64)
	var end error // of the input, or of what could not begin
	go func() {
		defer close(begun)
		end = p.begin(readCtx, to, begun)
	}()
	var failed error
	for b := range begun {
		receipt, err := b.wait()
		if err == nil && failed == nil {
			err = p.finish(b.entities, receipt)
		}
		if err != nil && failed == nil {
			failed = err
			cancel()
		}
	}
	if failed != nil {
		return failed
	}
	return end
}

// A publication is a batch that has begun.
type publication struct {
	entities []*feed.Entity
	wait     func() (server.Receipt, error)
}

// begin begins one batch after another until the input or ctx ends.
func (p *publishing) begin(ctx context.Context, to publisher, begun chan<- publication) error {
	for {
		batch, more, err := p.queue.take(ctx)
		if err != nil || len(batch) == 0 {
			return err
		}
		wait, err := to.Begin(ctx, batch, more)
		if err != nil {
			return err
		}
		begun <- publication{batch, wait}
	}
}

func (p *publishing) read(ctx context.Context, src *source, q *queue) {
	n := int64(0)
	for e, err := range src.entities {
		if n++; err == nil && n <= p.skip {
			err = p.resume.check(n, e)
		}
		if err != nil {
			q.close(err)
			return
		}
		if n > p.skip && !q.add(ctx, e) {
			break
		}
	}
	err := ctx.Err()
	if err == nil && p.resume != nil {
		err = p.resume.checkEnd(n)
	}
	q.close(err)
}

// finish notes that a batch is durable.
func (p *publishing) finish(batch []*feed.Entity, receipt server.Receipt) error {
	p.queue.published(batch)
	p.bytes.Add(bodies(batch))
	p.published.Add(int64(receipt.Published))
	p.duplicates += int64(receipt.Duplicates)
	p.acknowledged += int64(len(batch))
	p.last = receipt
	if p.resume != nil {
		return p.resume.save(p.skip+p.acknowledged, batch[len(batch)-1])
	}
	return nil
}
