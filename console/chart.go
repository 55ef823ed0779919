package console

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Dimensions of a sparkline.
const (
	sparkHeight = 20  // in units of the sparkline; a step is one unit wide
	sparkPeak   = 2.5 // a step of full height is at least this multiple of the mean
)

// spark returns the path of a sparkline: an area with a step for each number. Even the smallest number above 0 is
// visible. The largest number has the full height, unless the numbers are about equal, since a steady rate should not
// look like a peak.
func spark(steps []float64) string {
	largest, total := 0.0, 0.0
	for _, n := range steps {
		largest, total = max(largest, n), total+n
	}
	largest = max(largest, sparkPeak*total/float64(len(steps)))
	var path strings.Builder
	path.WriteString("M0 " + strconv.Itoa(sparkHeight))
	for i := 0; i < len(steps); {
		height, wide := barHeight(steps[i], largest, sparkHeight), 1
		for i+wide < len(steps) && barHeight(steps[i+wide], largest, sparkHeight) == height {
			wide++
		}
		path.WriteString("V" + strconv.Itoa(sparkHeight-height) + "h" + strconv.Itoa(wide))
		i += wide
	}
	path.WriteString("V" + strconv.Itoa(sparkHeight) + "z")
	return path.String()
}

// barHeight returns the height of a bar, which is at most full.
func barHeight(n, largest float64, full int) int {
	if n <= 0 {
		return 0
	}
	return max(int(math.Round(n/largest*float64(full))), 1)
}

// A chart shows what was published to a feed, as bars and as a table.
type chart struct {
	Ranges  []rangeLink
	Bars    []bar
	Width   int // of all bars, in the units of their X
	Largest int64
	Total   int64
	Bytes   int64
	Exact   bool
	From    time.Time
	To      time.Time
	Step    time.Duration
}

// A rangeLink is a link to a chart of another span.
type rangeLink struct {
	URL     string
	Text    string
	Current bool
}

// A bar is a step of a series.
type bar struct {
	X, Y, Height    int
	From            time.Time
	Entities, Bytes int64
}

// Dimensions of a chart, in its own units.
const (
	chartHeight = 120
	barWidth    = 10 // with the gap after it
)

// newChart returns the chart of a series.
func newChart(s *series) *chart {
	c := &chart{Width: barWidth * len(s.Entities), Exact: s.Exact, From: s.From, To: s.From.Add(s.Step * time.Duration(len(s.Entities))), Step: s.Step}
	largest := 0.0
	for _, n := range s.Entities {
		largest = max(largest, n)
	}
	c.Largest, c.Total, c.Bytes = int64(math.Round(largest)), s.total(s.Entities), s.total(s.Bytes)
	for i, n := range s.Entities {
		height := barHeight(n, largest, chartHeight)
		c.Bars = append(c.Bars, bar{
			X: i * barWidth, Y: chartHeight - height, Height: height, From: s.From.Add(s.Step * time.Duration(i)),
			Entities: int64(math.Round(n)), Bytes: int64(math.Round(s.Bytes[i])),
		})
	}
	return c
}

// A span is a range of time, up to now, that a chart can show.
type span struct {
	name, text string
	step       time.Duration // 0: all time
	steps      int
}

// spans returns the spans that a chart can show, the shortest first.
func spans() []span {
	return []span{
		{"hour", "Hour", time.Minute, 60},
		{"day", "Day", 30 * time.Minute, 48},
		{"week", "Week", 3 * time.Hour, 56},
		{"month", "30 days", 12 * time.Hour, 60},
		{"all", "All", 0, 60},
	}
}

// bounds returns the beginning and the end of a span: whole steps up to now or, for "all", the time from the first
// entity to the last.
func (s span) bounds(now, first, last time.Time) (from, to time.Time) {
	if s.step == 0 {
		return first, last.Add(time.Millisecond)
	}
	to = now.Truncate(s.step).Add(s.step)
	return to.Add(-s.step * time.Duration(s.steps)), to
}

// chosen returns the span with the given name or, if there is none, the shortest span of at least a day that includes
// the newest entity.
func chosen(name string, now, last time.Time) span {
	all := spans()
	for _, s := range all {
		if s.name == name {
			return s
		}
	}
	for _, s := range all[1:] {
		if from, _ := s.bounds(now, last, last); s.step == 0 || last.After(from) {
			return s
		}
	}
	return all[len(all)-1]
}
