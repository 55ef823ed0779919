package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/shell"
	"github.com/feedctl/feedctl/readers"
)

// Readers lists the readers of the feeds. A [*readers.Tracker] implements it.
type Readers interface {
	// List returns all known readers, and how many were forgotten because there were too many.
	List() (all []readers.Reader, forgotten int64)
	Of(feed string) []readers.Reader
	Reader(id string) (readers.Reader, readers.History, bool)
	Summary(feed string) readers.Summary
	Feeds() map[string]int
}

// A ReadersSummary summarizes all readers of a feed.
type ReadersSummary = readers.Summary

// Limits of the list of readers.
const (
	readersAPage = 50
	readingTime  = time.Minute // how long after its last request a reader counts as away
	lateAfter    = time.Minute // the lag above which a reader counts as late
)

// A readerRow is a reader in a list.
type readerRow struct {
	readers.Reader
	URL   string
	Label string
	State string
}

// readersView is a page of the list of readers.
type readersView struct {
	page
	Rows          []readerRow
	Feed, Query   string // the feed and the text that the list is limited to
	Total         int    // readers that match
	Late, Growing int    // of these
	Forgotten     int64
	First, Next   string // URLs of other pages; "" if there are none
	From          int    // the number of the first row, from 1
	Orders        []orderLink
	Live          string
	NotTold       bool // no reader announces a name
}

// An orderLink is a link to a list in another order.
type orderLink struct {
	URL, Text string
	Current   bool
}

// An order is a way to sort the list of readers.
type order struct{ name, text string }

func orders() []order {
	return []order{{"", "furthest behind"}, {"seen", "seen last"}, {"name", "by name"}}
}

// getReaders answers requests for "/readers". In the query, "feed" and "q" limit the list, and "sort" is its order.
func (c *Console) getReaders(r *http.Request) (content, error) {
	query := r.URL.Query()
	from, err := parameter(r, "from", 1)
	if err != nil {
		return nil, err
	}
	v := &readersView{page: page{Title: "Readers", Command: c.metricsCommand("^feedctl_reader_")}}
	if v.Feed, err = feedParameter(r); err != nil {
		return nil, err
	}
	if v.Query, err = searched(r); err != nil {
		return nil, err
	}
	sort := query.Get("sort")
	if !slices.ContainsFunc(orders(), func(o order) bool { return o.name == sort }) {
		return nil, badRequest("Readers cannot be ordered by %.40q.", sort)
	}
	var all []readers.Reader
	if v.Feed == "" {
		all, v.Forgotten = c.config.Readers.List()
	} else {
		all = c.config.Readers.Of(v.Feed)
	}
	all = slices.DeleteFunc(all, func(r readers.Reader) bool { return !mentions(&r, v.Query) })
	sortReaders(all, sort)
	v.Total, v.NotTold = len(all), len(all) > 0
	for i := range all {
		r := &all[i]
		if r.Lag.Known && r.Lag.Time > lateAfter {
			v.Late++
		}
		if r.Lag.Trend == readers.Growing {
			v.Growing++
		}
		v.NotTold = v.NotTold && r.Name == ""
	}
	first := min(int(from)-1, len(all))
	last := min(first+readersAPage, len(all))
	v.From = first + 1
	for i := range all[first:last] {
		v.Rows = append(v.Rows, c.readerRow(&all[first+i]))
	}
	link := func(from int, sort string) string {
		values := url.Values{}
		for name, value := range map[string]string{"feed": v.Feed, "q": v.Query, "sort": sort} {
			if value != "" {
				values.Set(name, value)
			}
		}
		if from > 1 {
			values.Set("from", strconv.Itoa(from))
		}
		return "readers?" + values.Encode()
	}
	if first > 0 {
		v.First = link(1, sort)
	}
	if last < len(all) {
		v.Next = link(last+1, sort)
	}
	for _, o := range orders() {
		v.Orders = append(v.Orders, orderLink{URL: link(1, o.name), Text: o.text, Current: o.name == sort})
	}
	v.Live = link(v.From, sort) + "&part=list"
	return v, nil
}

// metricsCommand returns the command line that shows the lines of the metrics that grep selects.
func (c *Console) metricsCommand(grep ...string) string {
	if c.config.FeedsURL == "" {
		return ""
	}
	return c.curl("/metrics", "-s") + " | " + shell.Line(append([]string{"grep"}, grep...)...)
}

// mentions reports whether the name, program, user or network of a reader contains the given text.
func mentions(r *readers.Reader, text string) bool {
	return text == "" || slices.ContainsFunc([]string{r.Name, r.Agent, r.User, r.Network}, func(s string) bool {
		return strings.Contains(strings.ToLower(s), strings.ToLower(text))
	})
}

// sortReaders sorts readers. By default, those that are furthest behind come first, and those whose lag is not known
// last.
func sortReaders(all []readers.Reader, order string) {
	slices.SortFunc(all, func(a, b readers.Reader) int {
		first := 0
		switch order {
		case "":
			first = cmp.Or(known(b)-known(a), cmp.Compare(b.Lag.Time, a.Lag.Time), cmp.Compare(b.Lag.Pages, a.Lag.Pages))
		case "seen":
			first = b.Seen.Compare(a.Seen)
		}
		return cmp.Or(first, cmp.Compare(labelOf(&a), labelOf(&b)), cmp.Compare(a.Feed, b.Feed), cmp.Compare(a.ID, b.ID))
	})
}

func known(r readers.Reader) int {
	if r.Lag.Known {
		return 1
	}
	return 0
}

// readerRow returns what a list shows of a reader.
func (c *Console) readerRow(r *readers.Reader) readerRow {
	return readerRow{Reader: *r, URL: readerURL(r.ID), Label: labelOf(r), State: c.readerState(r)}
}

func readerURL(id string) string { return "reader?" + url.Values{"id": {id}}.Encode() }

// labelOf returns the name of a reader or, for a stranger, that of its program.
func labelOf(r *readers.Reader) string {
	return cmp.Or(r.Name, r.Agent, "unknown program")
}

// readerState says in a few words what a reader is doing.
func (c *Console) readerState(r *readers.Reader) string {
	switch {
	case r.Failed.Status != 0 && r.Failed.At.Equal(r.Seen):
		return "failing"
	case r.Waiting > 0:
		return "waiting for more"
	case c.config.Now().Sub(r.Seen) < readingTime:
		return "reading"
	}
	return "away"
}

// readerView is the page of a reader.
type readerView struct {
	page
	readerRow
	PageURL   string // of the page of the reader's position; "" if that is not known
	EntityURL string
	Entities  string // how many entities the reader is behind; "" if that is not known
	Hour, Day *lagChart
	Live      string
}

// getReader answers requests for "/reader". In the query, "id" is the reader.
func (c *Console) getReader(r *http.Request) (content, error) {
	id := r.URL.Query().Get("id")
	known, history, ok := c.config.Readers.Reader(id)
	if !ok {
		return nil, problem.New(http.StatusNotFound, "no-reader", "This reader is not known: it has sent no request for a long time, or the server was restarted.")
	}
	v := &readerView{
		page: page{Title: labelOf(&known), Command: c.readerCommand(&known)}, readerRow: c.readerRow(&known),
		Hour: newLagChart("hour", history.Hour, readers.SampleEvery), Day: newLagChart("day", history.Day, readers.CoarseEvery),
		Live: readerURL(id) + "&part=reader",
	}
	if p := known.Position; c.config.Feeds != nil && p.Known() {
		if p.Page > 0 {
			v.PageURL = pageURL(known.Feed, p.Page)
		}
		if p.ContentID != "" {
			v.EntityURL = "search?" + url.Values{"feed": {known.Feed}, "q": {p.ContentID}}.Encode()
		}
		v.Entities = c.entitiesBehind(r.Context(), &known)
	}
	return v, nil
}

// readerCommand returns the command line that shows the metrics of a reader, or "" if the reader has none.
func (c *Console) readerCommand(r *readers.Reader) string {
	if r.Name == "" {
		return ""
	}
	return c.metricsCommand("-F", fmt.Sprintf("feed=%q,reader=%q", r.Feed, r.Name))
}

// entitiesBehind returns how many entities a reader has not read, or "" if that cannot be found out.
func (c *Console) entitiesBehind(ctx context.Context, r *readers.Reader) string {
	if r.Position.Filling || !r.Lag.Known {
		return ""
	}
	n, err := readers.Behind(ctx, c.config.Feeds, r.Feed, r.Position)
	if err != nil {
		c.log.DebugContext(ctx, "cannot count the entities that a reader is behind", "feed", r.Feed, "error", err)
		return ""
	}
	if n.More {
		return "more than " + count(n.Entities)
	}
	return count(n.Entities)
}

// A lagChart shows the lag of a reader over a span of time, as a line and as a table.
type lagChart struct {
	Name   string // of the span
	Path   string // of the line; "" if no value is known
	Width  int
	Height int
	Worst  time.Duration
	Rows   []lagRow // newest first
}

// A lagRow is the largest lag in a part of the span.
type lagRow struct {
	From, To time.Duration // before now
	Worst    string
}

// Dimensions of a lagChart, in units of the chart; a value is one unit wide.
const (
	lagHeight = 60
	lagRows   = 12
)

// newLagChart returns the chart of the values of a history, the oldest first, one for each step.
func newLagChart(name string, values []int32, step time.Duration) *lagChart {
	v := &lagChart{Name: name, Width: max(1, len(values)-1), Height: lagHeight}
	worst := int32(0)
	for _, n := range values {
		worst = max(worst, n)
	}
	v.Worst = time.Duration(worst) * time.Second
	var path strings.Builder
	move := "M"
	for x, n := range values {
		if n < 0 {
			move = "M"
			continue
		}
		y := lagHeight - 1 - int(int64(n)*(lagHeight-2)/int64(max(worst, 1)))
		fmt.Fprintf(&path, "%s%d %d", move, x, y)
		move = "L"
	}
	v.Path = path.String()
	each := max(1, (len(values)+lagRows-1)/lagRows)
	for end := len(values); end > 0; end -= each {
		begin := max(0, end-each)
		row := lagRow{From: time.Duration(len(values)-begin) * step, To: time.Duration(len(values)-end) * step, Worst: "not known"}
		if most := slices.Max(values[begin:end]); most >= 0 {
			row.Worst = human.Duration(time.Duration(most) * time.Second)
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// Stage describes how a reader reads if it does not read in the order of the feed.
func (r readerRow) Stage() string {
	switch p := r.Position; {
	case p.InSnapshot:
		return "in a snapshot, after " + plural(p.SnapshotPages, "page", "pages")
	case p.Filling:
		return "newest first"
	}
	return ""
}

// behindText returns a known lag in words.
func behindText(l readers.Lag) string {
	switch {
	case l.Time == 0:
		return "caught up"
	case l.Trend == readers.Growing:
		return human.Duration(l.Time) + " ▲"
	}
	return human.Duration(l.Time)
}
