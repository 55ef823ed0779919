package watch

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

const (
	// kintoMissing is the state of a collection that does not exist.
	kintoMissing = "missing"
	// kintoLate is how long after a change the jobs are woken a second time. It equals the default
	// window of a bridge, which is longer than a transaction.
	kintoLate = time.Minute
	// kintoPeriod is how often the jobs of a collection without changes are woken.
	kintoPeriod = 6 * time.Hour
)

// A kintoState is the state of a collection that exists.
type kintoState struct {
	stamp  int64
	period int64 // the number of the current kintoPeriod
	again  bool  // the jobs are to be woken a second time, kintoLate after the first
}

// parseKintoState parses the result of String. It returns the zero state for any other string.
func parseKintoState(text string) (k kintoState) {
	text, k.again = strings.CutSuffix(text, " again")
	if _, err := fmt.Sscanf(text, "%d %d", &k.stamp, &k.period); err != nil {
		return kintoState{}
	}
	return k
}

// String returns the state in the form in which it is saved.
func (k kintoState) String() string {
	text := fmt.Sprintf("%d %d", k.stamp, k.period)
	if k.again {
		text += " again"
	}
	return text
}

// periodOf returns the number of the period in which a time lies. The periods of different collections
// begin at different times.
func periodOf(name string, at time.Time) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // it never fails
	const length = int64(kintoPeriod / time.Second)
	return (at.Unix() + int64(h.Sum32())%length) / length
}
