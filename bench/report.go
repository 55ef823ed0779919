package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

// A row is one line of the report. The section that measures it adds a sample in each round.
type row struct {
	Name      string `json:"name"`
	Unit      string `json:"unit"`
	OtherName string `json:"other_name"`
	Ours      spread `json:"ours"`   // in Unit
	Other     spread `json:"other"`  // in Unit; of what Ours is compared with in the same round
	Ratio     spread `json:"ratio"`  // Ours/Other of each round; 0 if there is no other
	Target    string `json:"target"` // "" if there is none
	Pass      bool   `json:"pass"`   // true if there is no target
	Noisy     bool   `json:"noisy"`  // the machine varied too much to judge

	target  target
	worst   bool // the highest sample counts, not the median
	samples []sample
}

// A sample is what one round has measured.
type sample struct{ ours, other float64 }

func (s sample) ratio() float64 {
	if s.other == 0 {
		return 0
	}
	return s.ours / s.other
}

// A spread sums up the samples of all rounds.
type spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// spreadOf returns the spread of a value of the samples. If their number is even, the median is the
// lower of the two in the middle.
func spreadOf(samples []sample, value func(sample) float64) spread {
	var values []float64
	for _, s := range samples {
		values = append(values, value(s))
	}
	slices.Sort(values)
	return spread{values[0], values[(len(values)-1)/2], values[len(values)-1]}
}

// A target is a limit for the median of a row, or for the maximum if the row was added with
// addWorst.
type target struct {
	text string
	met  func(s sample) bool
}

func noTarget() target {
	return target{met: func(sample) bool { return true }}
}

func atLeastRatio(v float64) target {
	return target{fmt.Sprintf("ratio >= %g", v), func(s sample) bool { return s.ratio() >= v }}
}

func atMostRatio(v float64) target {
	return target{fmt.Sprintf("ratio <= %g", v), func(s sample) bool { return s.ratio() <= v }}
}

func atLeast(v float64) target {
	return target{fmt.Sprintf(">= %g", v), func(s sample) bool { return s.ours >= v }}
}

func atMost(v float64) target {
	return target{fmt.Sprintf("<= %g", v), func(s sample) bool { return s.ours <= v }}
}

// withinTenth is the target of a value that may differ from the alternative by at most a tenth of
// the latter.
func withinTenth() target {
	return target{"within 10 %", func(s sample) bool { return math.Abs(s.ours-s.other) <= s.other/10 }}
}

func below(v float64) target {
	return target{fmt.Sprintf("< %g", v), func(s sample) bool { return s.ours < v }}
}

// noise limits the ratio between the fastest and the slowest round of the alternative. If the
// alternative varies more, the machine was busy with something else, and the row is not judged.
const noise = 1.5

// A report gathers rows, and prints those of a section after its last round.
type report struct {
	out     io.Writer
	rows    []*row
	printed int // number of rows that have been printed
}

func newReport(out io.Writer) *report {
	fmt.Fprintf(out, "%-46s %11s %11s %7s %15s  %-14s %s\n", "medians of the rounds", "ours", "other", "ratio", "min to max", "target", "other is")
	return &report{out: out, rows: []*row{}}
}

// add adds a sample to the row with the given name, unit and alternative.
func (p *report) add(name, unit string, ours, other float64, otherName string, t target) {
	p.row(name, unit, otherName, t).add(ours, other)
}

// addWorst is like add, but compares the highest sample of the row with the target.
func (p *report) addWorst(name, unit string, ours, other float64, otherName string, t target) {
	r := p.row(name, unit, otherName, t)
	r.worst = true
	r.add(ours, other)
}

func (p *report) row(name, unit, otherName string, t target) *row {
	for _, r := range p.rows[p.printed:] {
		if r.Name == name && r.Unit == unit && r.OtherName == otherName && r.Target == t.text {
			return r
		}
	}
	r := &row{Name: name, Unit: unit, OtherName: otherName, Target: t.text, target: t}
	p.rows = append(p.rows, r)
	return r
}

func (r *row) add(ours, other float64) {
	r.samples = append(r.samples, sample{ours, other})
	r.Ours = spreadOf(r.samples, func(s sample) float64 { return s.ours })
	r.Other = spreadOf(r.samples, func(s sample) float64 { return s.other })
	r.Ratio = spreadOf(r.samples, sample.ratio)
	r.Pass = r.target.met(r.judged())
	r.Noisy = r.Target != "" && r.Other.Max > noise*r.Other.Min
}

// judged returns the sample that is compared with the target. Its ratio is that of the row, which is
// not always the ratio of the two medians.
func (r *row) judged() sample {
	if r.worst {
		return sample{r.Ours.Max, r.Other.Max}
	}
	if r.Ratio.Median != 0 {
		return sample{r.Ours.Median, r.Ours.Median / r.Ratio.Median}
	}
	return sample{r.Ours.Median, r.Other.Median}
}

func (r *row) verdict() string {
	switch {
	case r.Target == "":
		return ""
	case r.Noisy:
		return "noisy"
	case r.Pass:
		return "pass"
	default:
		return "MISS"
	}
}

// print prints the rows that have been added since it was last called.
func (p *report) print() {
	for _, r := range p.rows[p.printed:] {
		between := ""
		if len(r.samples) > 1 && r.Ratio.Max > 0 {
			between = fmt.Sprintf("%.2f to %.2f", r.Ratio.Min, r.Ratio.Max)
		}
		judged := r.judged()
		fmt.Fprintf(p.out, "%-46s %11.5g %11.5g %7.2f %15s  %-14s %-5s %s\n",
			r.Name+", "+r.Unit, judged.ours, r.Other.Median, judged.ratio(), between, r.Target, r.verdict(), r.OtherName)
	}
	p.printed = len(p.rows)
}

// end prints a summary of the rows.
func (p *report) end() {
	verdicts := map[string]int{}
	for _, r := range p.rows {
		verdicts[r.verdict()]++
	}
	fmt.Fprintf(p.out, "%d rows with a target: %d pass, %d miss\n", len(p.rows)-verdicts[""], verdicts["pass"], verdicts["MISS"])
	if n := verdicts["noisy"]; n > 0 {
		fmt.Fprintf(p.out, "%d are not judged: what they are compared with varied by a factor of more than %g between rounds, so the machine was busy with something else; measure them again\n", n, noise)
	}
}

func (p *report) write(file string) error {
	data, err := json.MarshalIndent(p.rows, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
