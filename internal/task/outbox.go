package task

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/tracing"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/outbox"
)

// An Outbox says where an outbox is and where its pages go.
type Outbox struct {
	DB string // URL of the database
	// Pages is the URL of the store of the pages; empty: they are in the database of the outbox.
	Pages string
}

// Flags adds the flag for the database.
func (o *Outbox) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.DB, "db", "", "`URL` of the database: postgres://USER@HOST/DATABASE?schema=feedctl")
}

// Check returns an error if a URL is invalid.
func (o *Outbox) Check() error {
	_, err := locate.ParseDatabase("--db", o.DB)
	if o.Pages == "" {
		return ofArgument(err)
	}
	return errors.Join(ofArgument(err), ofArgument(locate.CheckStore(o.Pages)))
}

// Open opens the database.
func (o *Outbox) Open(ctx context.Context, e *Env, want Access) (*outbox.DB, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	db, err := e.OpenOutbox(ctx, o.DB, want)
	if err != nil {
		return nil, HintInit(fmt.Errorf("open the database of the outbox: %w", err), o.DB)
	}
	return db, nil
}

// OpenPages opens the store that the rows are moved to, and sets it in the configuration.
func (o *Outbox) OpenPages(ctx context.Context, e *Env, config *outbox.Config, want Access) error {
	local, err := locate.ParseDatabase("--db", o.DB)
	if err != nil {
		return err
	}
	config.Producer.Observe = tracing.FromContext(ctx).Writes()
	to := local
	if o.Pages != "" {
		scheme, _, _ := strings.Cut(o.Pages, ":")
		if scheme != "postgres" && scheme != "postgresql" {
			config.Store, err = e.OpenStore(ctx, o.Pages, want)
			return err
		}
		if to, err = locate.ParseDatabase("--store", o.Pages); err != nil {
			return err
		}
	}
	store, err := e.ConnectPages(ctx, to, want)
	if err != nil {
		return fmt.Errorf("open the store of the outbox: %w", err)
	}
	if sameDatabase(local, to) {
		config.Local = store
	} else {
		config.Store = e.observed(ctx, store)
	}
	return nil
}

// sameDatabase reports whether two URLs name the same schema of the same database in the same way.
func sameDatabase(a, b *url.URL) bool {
	return a.Host == b.Host && a.Path == b.Path && a.RawQuery == b.RawQuery
}

// HintOutbox adds a remedy to an error of the outbox. If a runner has a different store than before, the error
// becomes a usage error.
func HintOutbox(err error) error {
	const adopt = "\"feedctl outbox run --adopt\", once you know the cause: rows that are in the feed already are then not published again"
	switch {
	case errors.Is(err, outbox.ErrDestination):
		return exit.WithHint(exit.Usagef("%w", err), "the --store that it had before; or "+adopt)
	case errors.Is(err, outbox.ErrForeign):
		return exit.WithHint(err, adopt)
	case errors.Is(err, outbox.ErrNotCaptured):
		return exit.WithHint(err, "another --table or --feed: \"feedctl outbox status --json\" has the tables that are captured")
	}
	return err
}

// An OutboxRun moves rows of an outbox to the pages of their feeds.
type OutboxRun struct {
	Outbox
	Feeds      []string
	All        bool // move all feeds instead of Feeds
	Once       bool // end when all rows that were committed have been moved
	Adopt      bool
	MaxEntity  int64
	Quarantine units.Limit
	// Idle is called for each feed, like [outbox.Config.Idle], unless Once is set.
	Idle func()

	opened atomic.Pointer[openedOutbox]
}

// outboxRetryFor is how long a run that fails fast retries: longer than a restart of a database
// takes.
const outboxRetryFor = 10 * time.Second

type openedOutbox struct {
	db    *outbox.DB
	group *outbox.Group
}

// Flags adds the flags.
func (o *OutboxRun) Flags(flags *pflag.FlagSet) {
	o.Outbox.Flags(flags)
	flags.StringSliceVar(&o.Feeds, "feed", nil, "`FEED` whose rows are moved; may be repeated")
	flags.BoolVar(&o.All, "all", false, "move the rows of all feeds")
	flags.BoolVar(&o.Once, "once", false, "end when all rows that were committed have been moved")
	flags.BoolVar(&o.Adopt, "adopt", false, "first adopt feeds with an unknown checkpoint")
	units.SizeVar(flags, &o.MaxEntity, "max-entity", 0, "put rows with more than this many `BYTES` into quarantine (default no limit)")
	limitFlag(flags, &o.Quarantine)
}

// Check returns an error if an argument or a flag is invalid. It does not use the network.
func (o *OutboxRun) Check() error {
	problems := []error{o.Outbox.Check()}
	if o.All == (len(o.Feeds) > 0) {
		problems = append(problems, exit.Usagef("outbox run needs either --feed or --all"))
	}
	for _, name := range o.Feeds {
		if err := layout.CheckName(name); err != nil {
			problems = append(problems, fmt.Errorf("--feed: %w", err))
		}
	}
	return errors.Join(problems...)
}

// A Moved says how much a run of [OutboxRun] has moved for a feed.
type Moved struct {
	Feed string `json:"feed"`
	outbox.Stats
}

// Run moves rows until ctx ends, or until there are no more rows. The result is nil if the run failed before it had
// begun.
func (o *OutboxRun) Run(ctx context.Context, e *Env) ([]Moved, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	want := Access{Create: true, Follow: !o.Once}
	db, err := o.Open(ctx, e, want)
	if err != nil {
		return nil, err
	}
	config := outbox.Config{Logger: e.Log, MaxEntity: o.MaxEntity, Idle: o.Idle}
	if e.FailFast {
		config.RetryFor = outboxRetryFor
	}
	if err := o.OpenPages(ctx, e, &config, want); err != nil {
		return nil, err
	}
	group := outbox.NewGroup(db, config, o.Once)
	if o.Adopt {
		if err := group.Adopt(ctx, o.Feeds); err != nil {
			return nil, err
		}
	}
	o.opened.Store(&openedOutbox{db, group})
	if o.All {
		err = group.RunAll(ctx)
	} else {
		err = group.Run(ctx, o.Feeds)
	}
	all, result := o.Status(), movedBy(group)
	if err != nil {
		return result, HintOutbox(err)
	}
	bad := int64(0)
	for _, m := range result {
		bad += m.Quarantined
	}
	return result, checkLimit(&o.Quarantine, bad, all.Entities+bad, "the table outbox_quarantine has them, with the reasons")
}

// movedBy returns what the runners of a group have moved.
func movedBy(g *outbox.Group) []Moved {
	result := []Moved{}
	g.Each(func(name string, s outbox.Stats) { result = append(result, Moved{name, s}) })
	return result
}

// Opened returns the database and its runners, or nil before they are open. It may be called while
// the task runs.
func (o *OutboxRun) Opened() (*outbox.DB, *outbox.Group) {
	if opened := o.opened.Load(); opened != nil {
		return opened.db, opened.group
	}
	return nil, nil
}

// Status returns the progress, to be shown to users. It may be called while the task runs.
func (o *OutboxRun) Status() progress.Status {
	s := progress.Status{Lag: -1}
	if _, group := o.Opened(); group != nil {
		group.Each(func(_ string, one outbox.Stats) {
			s.Entities += one.Rows
			s.Bytes += one.Bytes
		})
	}
	return s
}
