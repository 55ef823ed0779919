package units

import (
	"errors"
	"strconv"
	"strings"
)

// shareFrom is the number of things from which a share of them is compared before the end.
const shareFrom = 1000

// A Limit is a flag's limit of rejected things: a number of them, or a percentage of all. The zero
// Limit is exceeded if all are rejected.
type Limit struct {
	text    string // as it was given; "" for the zero Limit
	count   int64
	percent bool // share is valid, not count
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

// Exceeded reports whether more than the limit are rejected. Before the end, a percentage applies
// only once there are 1,000 things.
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
