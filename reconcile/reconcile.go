package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/jsonptr"
	"github.com/feedctl/feedctl/sink"
)

// Contents is the content of a sink at one moment.
type Contents interface {
	// Position returns the position of the sink's consumer at that moment.
	Position() feed.Position
	// Rows yields the rows whose keys are in [from, to); an empty to means no upper bound. The rows are read
	// to their end before Rows is called again. Unless About says that they are Ordered, they may be in any
	// order, and may include rows with other keys.
	Rows(ctx context.Context, from, to string) iter.Seq2[sink.Row, error]
	About() sink.About
	Close() error
}

// A Config says what to compare.
type Config struct {
	// Client reads the feed at URL. It must not follow the feed.
	Client *consumer.Client
	URL    string
	// KeyPointer is the key pointer of the consumer and the digest; see [consumer.Job].
	KeyPointer string
	// Digest is a state digest of the feed, with resolved URLs.
	Digest *digest.Reader
	// Open reads the sink.
	Open func(ctx context.Context) (Contents, error)
	// Prefix limits the comparison to keys that begin with it.
	Prefix string

	// Sink, if not nil, is repaired. It must have been opened as a consumer opens it, and its batches must
	// be [Guard]s.
	Sink consumer.Sink
	// MaxDeletes reports whether a number of deletes is too high for a sink with the given number of rows.
	// nil means no limit.
	MaxDeletes func(deletes, rows int64) bool

	// Found, if not nil, is called with each key that differs and, with All, each that is equal, in the
	// order of the keys.
	Found func(Line) error
	All   bool
	// Progress, if not nil, is called now and then.
	Progress func(Progress)
}

// A Progress describes the progress of a comparison.
type Progress struct {
	Rows   int64 // of the sink, read so far
	Keys   int64 // of the feed, compared so far
	Total  int64 // keys of the feed
	Ranges int64 // of keys that were read key by key
	Mended int64
}

// A Kind says how the sink differs from the feed for a key. The letters are those of "rclone check".
type Kind byte

// The kinds.
const (
	Equal   Kind = '='
	Changed Kind = '*'
	Missing Kind = '+' // the sink does not have it
	Extra   Kind = '-' // only the sink has it
	Failed  Kind = '!' // it could not be repaired
)

// A Line is the result of the comparison for one key.
type Line struct {
	Kind Kind
	Key  string
	Why  string // for a human reader; may be empty
}

// A Report is the result of a comparison.
type Report struct {
	// Digest is the position of the digest, and Position that of the sink when it was compared.
	Digest   feed.Position `json:"digest"`
	Position feed.Position `json:"position"`
	Counts
	// Rows is the number of rows of the sink that were compared.
	Rows int64 `json:"rows"`
	// Between is the number of keys that have entities between the two positions.
	Between int64 `json:"between"`
	// Ranges is the number of ranges that were read key by key.
	Ranges int64 `json:"ranges"`
	// Remarks say what cannot be compared.
	Remarks []string `json:"remarks,omitempty"`
	// Repair is what was repaired; nil if there was no repair.
	Repair *Repaired `json:"repair,omitempty"`
}

// Counts holds the numbers of keys of each kind.
type Counts struct {
	Equal   int64 `json:"equal"`
	Changed int64 `json:"changed"`
	Missing int64 `json:"missing"`
	Extra   int64 `json:"extra"`
	// ByContentID is the number of equal keys that were compared by Content-ID, and ByKey the number of those
	// compared only by key.
	ByContentID int64 `json:"byContentId,omitempty"`
	ByKey       int64 `json:"byKey,omitempty"`
}

// Differences returns the number of keys that differ.
func (c Counts) Differences() int64 { return c.Changed + c.Missing + c.Extra }

// Repaired counts what a repair has done.
type Repaired struct {
	Written int64 `json:"written"`
	Deleted int64 `json:"deleted"`
	// Changed is how many rows were left alone because they had changed since they were compared.
	Changed int64 `json:"changedMeanwhile"`
	// Lost is the number of keys for which neither the feed nor its snapshot has the entity that the digest
	// describes.
	Lost int64 `json:"lost"`
	// Left counts what the second comparison found in the repaired ranges.
	Left Counts `json:"left"`
}

// Remaining returns the number of keys that still differ, according to the report.
func (r *Report) Remaining() int64 {
	if r.Repair == nil {
		return r.Differences()
	}
	return r.Repair.Left.Differences()
}

var (
	// ErrBehind means that the sink has not reached the position of the digest.
	ErrBehind = errors.New("the sink is behind the digest: let its consumer catch up first")
	// ErrGone means that the feed does not have the position of the sink: it is another feed, was restored
	// to an older state, or has been pruned.
	ErrGone = errors.New("the feed does not have the position of the sink")
	// ErrFilling means that the sink has no position in the feed yet.
	ErrFilling = errors.New("the sink is being filled, and has no position in the feed yet: let its consumer finish first")
	// ErrShared means that other consumers write to the same table.
	ErrShared = errors.New("the table has several consumers, whose keys cannot be told apart: name a prefix of this feed's keys")
	// ErrVersions means that the digest belongs to a feed in which a key may have several states.
	ErrVersions = errors.New("the feed has several versions of a key (CouchDB conflicts), which this sink does not keep")
	// ErrDeletes means that a repair would delete more than is allowed. Nothing was changed.
	ErrDeletes = errors.New("repair would delete too many keys, and has changed nothing")
	// ErrOrder means that the rows of a sink are not in the order of their keys.
	ErrOrder = errors.New("rows are not sorted by the bytes of their keys")
	// ErrGuard means that a sink cannot be repaired.
	ErrGuard = errors.New("this sink can be compared, but not repaired")
)

// Run compares a sink with its feed and, if c.Sink is not nil, repairs it. It returns a report if the
// error is nil or matches [ErrDeletes].
func Run(ctx context.Context, c Config) (*Report, error) {
	r := &run{Config: c}
	report, err := r.run(ctx)
	if err != nil {
		return report, fmt.Errorf("reconcile: %w", err)
	}
	return report, nil
}

// A run is the state of one call of Run.
type run struct {
	Config
	key      *jsonptr.Pointer
	scratch  *scratch
	contents Contents
	all      digest.Range // of the prefix
	about    sink.About   // of contents, before they were sorted
	counts   Counts
	progress Progress
	repairs  bool // differences are recorded in scratch
}

func (r *run) run(ctx context.Context) (_ *Report, err error) {
	if r.KeyPointer != "" {
		p, err := jsonptr.Compile(r.KeyPointer)
		if err != nil {
			return nil, err
		}
		r.key = &p
	}
	if r.Digest.Root.Versions {
		return nil, ErrVersions
	}
	r.all = withPrefix(r.Prefix)
	if r.scratch, err = newScratch(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.scratch.close()) }()
	r.repairs = r.Sink != nil
	r.progress.Total = r.Digest.Root.Count
	report := &Report{Digest: digestPosition(r.Digest.Root)}
	if err := r.compare(ctx, report); err != nil {
		return nil, err
	}
	if r.Sink == nil || report.Differences() == 0 {
		return report, nil
	}
	if err = r.repair(ctx, report); err != nil && !errors.Is(err, ErrDeletes) {
		return nil, err
	}
	return report, err
}

// digestPosition returns the position of a digest.
func digestPosition(root *digest.Root) feed.Position {
	return feed.Position{
		LastModified: feed.Truncate(root.Feed.LastModified), ContentID: root.Feed.ContentID, Page: root.Feed.Page, Feed: root.Feed.URL,
	}
}

// compare compares the keys in r.all.
func (r *run) compare(ctx context.Context, report *Report) (err error) {
	contents, err := r.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, contents.Close()) }()
	r.about = contents.About()
	if r.about.Shared && r.Prefix == "" {
		return ErrShared
	}
	at := contents.Position()
	if at.ContentID == "" || at.ContentID != report.Position.ContentID { // otherwise this has already been done
		if report.Between, err = r.readBetween(ctx, report.Digest, at); err != nil {
			return err
		}
	}
	report.Position, report.Remarks = at, r.about.Remarks
	r.contents = contents
	if !r.about.Ordered {
		if err := r.scratch.sort(ctx, contents, r.all); err != nil {
			return err
		}
		r.contents = r.scratch.sorted(contents)
	}
	r.counts, r.progress.Rows, r.progress.Keys, r.progress.Ranges = Counts{}, 0, 0, 0
	if err := r.walk(ctx); err != nil {
		return err
	}
	report.Counts, report.Rows, report.Ranges = r.counts, r.progress.Rows, r.progress.Ranges
	return nil
}

// found counts a key and passes it to Found.
func (r *run) found(kind Kind, key, why string) error {
	switch kind {
	case Equal:
		r.counts.Equal++
	case Changed:
		r.counts.Changed++
	case Missing:
		r.counts.Missing++
	case Extra:
		r.counts.Extra++
	}
	if r.Found == nil || kind == Equal && !r.All {
		return nil
	}
	return r.Found(Line{kind, key, why})
}

func (r *run) report() {
	if r.Progress != nil {
		r.Progress(r.progress)
	}
}

// withPrefix returns the range of the keys that begin with a prefix.
func withPrefix(prefix string) digest.Range {
	for n := len(prefix); n > 0; n-- {
		if last := prefix[n-1]; last < 0xff {
			return digest.Range{From: prefix, To: prefix[:n-1] + string([]byte{last + 1})}
		}
	}
	return digest.Range{From: prefix}
}

// clip returns the part of r that is in other.
func clip(r, other digest.Range) (clipped digest.Range, empty bool) {
	r.From = max(r.From, other.From)
	if r.To == "" || other.To != "" && other.To < r.To {
		r.To = cmp.Or(other.To, r.To)
	}
	return r, r.To != "" && r.From >= r.To
}
