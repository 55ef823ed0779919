package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// sweepAge is the age at which the remains of interrupted writes are removed: by then, no command is
// still writing them.
const sweepAge = 24 * time.Hour

// A Prune deletes the oldest pages of a feed.
type Prune struct {
	Feed           string // NAME or STORE#NAME
	Policy         producer.PrunePolicy
	BeforeSnapshot string
	// Shown, if not nil, is the result of a dry run with the same flags. Run deletes exactly what that shows, or
	// nothing; in the latter case the error matches [ErrShown].
	Shown *Pruned
}

// ErrShown means that a run would no longer do what a dry run has shown.
var ErrShown = errors.New("the feed has changed since the dry run, which would show something else now")

// Flags adds the flags.
func (p *Prune) Flags(flags *pflag.FlagSet) {
	units.DurationVar(flags, &p.Policy.KeepAge, "keep-age", 0, "keep pages with an entity younger than this `DURATION`, such as 30d")
	flags.Int64Var(&p.Policy.KeepPages, "keep-pages", 0, "keep this `NUMBER` of newest pages")
	flags.StringVar(&p.BeforeSnapshot, "before-snapshot", "", "keep what is not in the snapshot `NAME` or NAME/ID")
	flags.BoolVar(&p.Policy.DryRun, "dry-run", false, "delete nothing, print what would be deleted")
}

// Check returns an error if an argument or a flag is invalid. It does not use the network.
func (p *Prune) Check() error {
	problems := []error{checkStored(p.Feed)}
	if p.Policy.KeepAge < 0 {
		problems = append(problems, exit.Usagef("--keep-age %v must not be negative", (*units.Duration)(&p.Policy.KeepAge)))
	}
	if p.Policy.KeepPages < 0 {
		problems = append(problems, exit.Usagef("--keep-pages %d must not be negative", p.Policy.KeepPages))
	}
	if p.Policy.KeepAge == 0 && p.Policy.KeepPages == 0 && p.BeforeSnapshot == "" {
		problems = append(problems, exit.Usagef("prune needs one of --keep-age, --keep-pages and --before-snapshot that is not zero"))
	}
	return errors.Join(problems...)
}

// A Pruned is the result of a run of [Prune].
type Pruned struct {
	Feed   string `json:"feed"`
	DryRun bool   `json:"dryRun"` // nothing was deleted
	producer.PruneReport
	Reason     string `json:"reason,omitempty"` // why no more pages were deleted
	BytesSwept int64  `json:"bytesSwept"`       // remains of interrupted writes, anywhere in the store
}

// Run deletes the pages.
func (p *Prune) Run(ctx context.Context, e *Env) (*Pruned, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	store, name, err := e.OpenNamed(ctx, p.Feed)
	if err != nil {
		return nil, err
	}
	policy := p.Policy
	if p.BeforeSnapshot != "" {
		if policy.Before, policy.Entry, err = snapshots.FeedPage(ctx, store, name, p.BeforeSnapshot); err != nil {
			return nil, err
		}
	}
	if policy.Before, err = p.bound(ctx, store, name, policy); err != nil {
		return nil, err
	}
	report, err := producer.Prune(ctx, store, name, policy)
	if err != nil {
		return nil, err
	}
	result := &Pruned{Feed: name, DryRun: policy.DryRun, PruneReport: report, Reason: p.kept(report, policy.Before)}
	if sweeper, ok := storage.As[storage.Sweeper](store); ok && !policy.DryRun {
		if result.BytesSwept, err = sweeper.Sweep(ctx, sweepAge); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// bound returns the oldest page to keep, according to the policy and to what a dry run has shown. Since
// the dry run, pages have aged and others have been added, but Prune must not delete more pages because of that.
func (p *Prune) bound(ctx context.Context, store storage.Store, name string, policy producer.PrunePolicy) (before int64, err error) {
	if p.Shown == nil {
		return policy.Before, nil
	}
	before = p.Shown.Floor
	if policy.Before > 0 {
		before = min(before, policy.Before)
	}
	policy.Before, policy.DryRun = before, true
	now, err := producer.Prune(ctx, store, name, policy)
	if err != nil {
		return 0, err
	}
	if now.Floor != p.Shown.Floor || now.Pages != p.Shown.Pages || now.Bytes != p.Shown.Bytes {
		return 0, fmt.Errorf("prune feed %q: %w: %s (%s)", name, ErrShown, human.Plural(now.Pages, "page", "pages"), human.Bytes(now.Bytes))
	}
	return before, nil
}

// kept returns the reason why no more pages are deleted, or "" if the reason is obvious. The parameter before is the
// number of the page at which the snapshot was made.
func (p *Prune) kept(report producer.PruneReport, before int64) string {
	switch {
	case report.Limited:
		return "more pages match, but they were written in the last hour"
	case report.Pages > 0:
		return ""
	case p.BeforeSnapshot != "" && report.Floor >= before-1:
		return fmt.Sprintf("snapshot %s was made at page %d, and one older page stays for consumers that know only the specification", p.BeforeSnapshot, before)
	case p.Policy.KeepAge > 0:
		return fmt.Sprintf("all older pages have an entity from the last %v", (*units.Duration)(&p.Policy.KeepAge))
	case p.Policy.KeepPages > 0:
		return fmt.Sprintf("there are no more than %s pages", human.Count(p.Policy.KeepPages))
	}
	return ""
}
