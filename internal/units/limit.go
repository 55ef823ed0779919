package units

import (
	"errors"
	"strconv"
	"strings"
)

// shareFrom is how many things there must be before a percentage is checked, except at the end.
const shareFrom = 1000

// A Limit is the value of a flag that limits rejected things: a number of them, or a percentage of
// all things. The zero Limit is exceeded if all things are rejected.
type Limit struct {
	text    string // as given; "" for the zero Limit
	count   int64
	percent bool // the limit is share, not count
	share   float64
}

// String implements [pflag.Value].
func (l *Limit) String() string { return l.text }

// Type implements [pflag.Value].
func (l *Limit) Type() string { return "limit" }

// Set implements [pflag.Value].
func (l *Limit) Set(text string) error {
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
	*l = Limit{text, count, percent, share}
	return nil
}

// Exceeded reports whether more things are rejected than the limit allows. Before the end, a
// percentage applies only once there are 1,000 things.
func (l *Limit) Exceeded(rejected, all int64, end bool) bool {
	switch {
	case l.text != "" && !l.percent:
		return rejected > l.count
	case all == 0 || !end && all < shareFrom:
		return false
	case l.text == "":
		return rejected == all
	}
	return 100*float64(rejected) > l.share*float64(all)
}
