package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
)

// errQuarantine is wrapped by the error of a command that put too much into quarantine.
var errQuarantine = exit.Errorf(exit.Quarantine, "too much did not fit")

// judgedFrom is from how many entities on a share of them is judged before the end.
const judgedFrom = 1000

// A quarantineLimit is how many entities may go into quarantine, or be refused, before this is
// a failure: a number, or a share of all. The zero quarantineLimit is the default: not all.
type quarantineLimit struct {
	text    string // as it was given; "" for the default
	count   int64
	percent bool // share counts, and not count
	share   float64
}

func (l *quarantineLimit) add(flags *pflag.FlagSet) {
	flags.Var(l, "max-quarantine", "fail if more than this `NUMBER` of entities, or P% of them, do not fit (default: if none fits)")
}

// String implements [pflag.Value].
func (l *quarantineLimit) String() string { return l.text }

// Type implements [pflag.Value].
func (l *quarantineLimit) Type() string { return "quarantine" }

// Set implements [pflag.Value].
func (l *quarantineLimit) Set(text string) error {
	var err error
	count, share := int64(0), 0.0
	number, percent := strings.CutSuffix(text, "%")
	if percent {
		share, err = strconv.ParseFloat(number, 64)
	} else {
		count, err = strconv.ParseInt(number, 10, 64)
	}
	if err != nil || count < 0 || !(share >= 0 && share <= 100) { // NaN
		return errors.New("is neither a number nor a percentage: want 100 or 2.5%")
	}
	*l = quarantineLimit{text, count, percent, share}
	return nil
}

// exceeded reports whether it is a failure that this many of all entities were put aside. A share
// of a few is not judged before the end.
func (l *quarantineLimit) exceeded(aside, all int64, end bool) bool {
	switch {
	case l.text != "" && !l.percent:
		return aside > l.count
	case all == 0 || !end && all < judgedFrom:
		return false
	case l.text == "":
		return aside == all
	}
	return 100*float64(aside) > l.share*float64(all)
}

// check returns the error of a command if too much was put aside in it. Where tells where that
// is, and why.
func (l *quarantineLimit) check(aside, all int64, where string) error {
	if !l.exceeded(aside, all, true) {
		return nil
	}
	return exit.WithHint(
		fmt.Errorf("%w: %s of %s: %s", errQuarantine, human.Count(aside), human.Plural(all, "entity", "entities"), where),
		"a fix for the reasons; or --max-quarantine NUMBER or P%, to accept that many (100%: all)",
	)
}
