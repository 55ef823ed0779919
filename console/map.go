package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/readers"
)

// Limits of the map.
const (
	mapFeeds   = 24
	mapReaders = 5  // of a feed
	mapText    = 30 // characters in a box
	mapAtOnce  = 8  // feeds that are read at the same time
)

// Dimensions of the map, in its own units.
const (
	mapRow    = 34
	mapBox    = 26
	mapWide   = 240 // a box
	mapGap    = 90  // between columns
	mapSource = 1
	mapFeed   = mapSource + mapWide + mapGap
	mapReader = mapFeed + mapWide + mapGap
	mapWidth  = mapReader + mapWide + 1
)

// mapView is the map: where feeds come from, and who reads them.
type mapView struct {
	page
	Feeds   []mapEntry
	Omitted int // feeds
	Boxes   []mapBoxView
	Edges   []mapEdge
	Width   int
	Height  int
	Live    string
}

// A mapEntry is a feed on the map.
type mapEntry struct {
	Name    string
	URL     string
	Source  string // such as "couchdb https://…" for a bridge; "" if it is not known
	Readers []readerRow
	More    int // readers
	MoreURL string
}

// A mapBoxView is a box of the map.
type mapBoxView struct {
	X, Y, Width, Height int
	TextX, TextY        int
	Class               string
	URL                 string // "" for a box without a page
	Text, Title         string
}

// A mapEdge joins two boxes.
type mapEdge struct {
	Path  string
	Class string
}

// getMap answers requests for "/map". It shows the feeds with the most readers, and then those with the newest entities.
func (c *Console) getMap(r *http.Request) (content, error) {
	v := &mapView{page: page{Title: "Map", Command: c.metricsCommand("^feedctl_reader_")}, Live: "map?part=map"}
	var with map[string]int
	if c.config.Readers != nil {
		with = c.config.Readers.Feeds()
	}
	names := slices.SortedFunc(maps.Keys(with), func(a, b string) int { return cmp.Or(with[b]-with[a], cmp.Compare(a, b)) })
	heads, feeds := c.config.Feeds.Heads(headsWait)
	if len(heads) == 0 {
		if _, _, err := c.firstFeeds(r.Context(), 1); err != nil {
			return nil, err // the store is not empty, but cannot be read
		}
	}
	for _, name := range latest(heads, len(heads)) {
		if with[name] == 0 {
			names = append(names, name)
		}
	}
	shown := names[:min(len(names), mapFeeds)]
	v.Omitted = max(feeds, len(names)) - len(shown)
	v.Feeds = make([]mapEntry, len(shown))
	group := new(errgroup.Group)
	group.SetLimit(mapAtOnce)
	for i, name := range shown {
		group.Go(func() error {
			v.Feeds[i] = c.mapEntry(r.Context(), name)
			return nil
		})
	}
	_ = group.Wait() // none of the functions fails
	v.draw()
	return v, nil
}

// mapEntry returns what the map shows of a feed.
func (c *Console) mapEntry(ctx context.Context, name string) mapEntry {
	e := mapEntry{Name: name, URL: feedURL(name), MoreURL: "readers?" + url.Values{"feed": {name}}.Encode()}
	if _, newest, _, err := c.config.Feeds.Look(ctx, name); err == nil {
		if kind, source := bridge.SourceOf(newest.Checkpoint); kind != "" {
			e.Source = kind + " " + source
		}
	}
	if c.config.Readers == nil {
		return e
	}
	all := c.config.Readers.Of(name)
	slices.SortFunc(all, func(a, b readers.Reader) int { // readers that announce a name come first
		return cmp.Or(named(b)-named(a), cmp.Compare(labelOf(&a), labelOf(&b)), cmp.Compare(a.ID, b.ID))
	})
	e.More = max(0, len(all)-mapReaders)
	for i := range all[:len(all)-e.More] {
		e.Readers = append(e.Readers, c.readerRow(&all[i]))
	}
	return e
}

func named(r readers.Reader) int {
	if r.Name != "" {
		return 1
	}
	return 0
}

// draw places the boxes. Each feed takes one row for each of its readers, and at least one; the feed and its source
// are in the first of these rows.
func (v *mapView) draw() {
	v.Width = mapWidth
	row := 0
	for _, e := range v.Feeds {
		y := row*mapRow + 1
		if e.Source != "" {
			v.box(mapSource, y, "source", "", strings.Replace(e.Source, "https://", "", 1))
			v.edge(mapSource+mapWide, y, mapFeed, y, "")
		}
		v.box(mapFeed, y, "feed", e.URL, e.Name)
		for _, r := range e.Readers {
			at, class := row*mapRow+1, ""
			if r.Lag.Known && r.Lag.Time > lateAfter {
				class = "late"
			}
			text := r.Label
			if r.Lag.Known {
				behind := " · " + behindText(r.Lag)
				text = shortened(text, mapText-len([]rune(behind))) + behind
			}
			v.box(mapReader, at, "reader "+class, r.URL, text)
			v.edge(mapFeed+mapWide, y, mapReader, at, class)
			row++
		}
		if e.More > 0 {
			at := row*mapRow + 1
			v.box(mapReader, at, "reader", e.MoreURL, plural(e.More, "more", "more"))
			v.edge(mapFeed+mapWide, y, mapReader, at, "")
			row++
		}
		row = max(row, (y-1)/mapRow+1)
	}
	v.Height = row*mapRow + 1
}

// box adds a box whose upper left corner is at x and y.
func (v *mapView) box(x, y int, class, link, text string) {
	v.Boxes = append(v.Boxes, mapBoxView{
		X: x, Y: y, Width: mapWide, Height: mapBox, TextX: x + 10, TextY: y + mapBox*2/3,
		Class: class, URL: link, Text: shortened(text, mapText), Title: text,
	})
}

// edge adds a curve between two boxes whose sides are at the given places.
func (v *mapView) edge(x1, y1, x2, y2 int, class string) {
	y1, y2 = y1+mapBox/2, y2+mapBox/2
	middle := (x1 + x2) / 2
	v.Edges = append(v.Edges, mapEdge{Path: fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, middle, y1, middle, y2, x2, y2), Class: class})
}

// shortened returns at most limit characters of a text.
func shortened(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit-1]) + "…"
}
