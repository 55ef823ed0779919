package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
)

// A result is one line of bench.json. Ours and Other are in Unit; Ratio is
// Ours/Other.
type result struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit"`
	Ours      float64 `json:"ours"`
	Other     float64 `json:"other"`
	OtherName string  `json:"other_name"`
	Ratio     float64 `json:"ratio"`
	Target    string  `json:"target"` // "" if there is none
	Pass      bool    `json:"pass"`   // true if there is no target
}

// A target is the required value of a result.
type target struct {
	text string
	met  func(r result) bool
}

func noTarget() target {
	return target{met: func(result) bool { return true }}
}

func atLeastRatio(v float64) target {
	return target{fmt.Sprintf("ratio >= %g", v), func(r result) bool { return r.Ratio >= v }}
}

func atMostRatio(v float64) target {
	return target{fmt.Sprintf("ratio <= %g", v), func(r result) bool { return r.Ratio <= v }}
}

func atLeast(v float64) target {
	return target{fmt.Sprintf(">= %g", v), func(r result) bool { return r.Ours >= v }}
}

func atMost(v float64) target {
	return target{fmt.Sprintf("<= %g", v), func(r result) bool { return r.Ours <= v }}
}

// withinTenth is a limit of a tenth of Other for the difference of Ours from it.
func withinTenth() target {
	return target{"within 10 %", func(r result) bool { return math.Abs(r.Ours-r.Other) <= r.Other/10 }}
}

func below(v float64) target {
	return target{fmt.Sprintf("< %g", v), func(r result) bool { return r.Ours < v }}
}

type report struct {
	out     io.Writer
	results []result
}

func newReport(out io.Writer) *report {
	fmt.Fprintf(out, "%-40s %12s %12s %7s  %-14s %-5s %s\n", "", "ours", "other", "ratio", "target", "", "other is")
	return &report{out: out, results: []result{}}
}

func (p *report) add(name, unit string, ours, other float64, otherName string, t target) {
	r := result{Name: name, Unit: unit, Ours: ours, Other: other, OtherName: otherName, Target: t.text}
	if other != 0 {
		r.Ratio = ours / other
	}
	r.Pass = t.met(r)
	verdict := ""
	if t.text != "" {
		verdict = map[bool]string{true: "pass", false: "MISS"}[r.Pass]
	}
	fmt.Fprintf(p.out, "%-40s %12.5g %12.5g %7.2f  %-14s %-5s %s\n",
		name+", "+unit, r.Ours, r.Other, r.Ratio, t.text, verdict, otherName)
	p.results = append(p.results, r)
}

func (p *report) write(file string) error {
	data, err := json.MarshalIndent(p.results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
