// Package lintest checks histories for linearizability: whether what the clients of
// a store, or of a feed, were told can be explained by each of their operations
// taking place at one moment between its call and its return, one after another.
//
// An operation with an unknown outcome may take place at any time after its call,
// or never. In the history it returns after everything else.
package lintest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// decideWithin is how long the search for an explanation may take. Histories are
// kept so small that it takes a small part of that.
const decideWithin = 5 * time.Minute

// never is the return time of operations with an unknown outcome.
const never = math.MaxInt64

// A history is what clients did and were told. Its time counts calls and returns,
// so that two of them are in the order in which they were, and no clock is asked.
type history struct {
	now atomic.Int64

	mu         sync.Mutex
	operations []porcupine.Operation
}

func (h *history) time() int64 { return h.now.Add(1) }

func (h *history) add(client int, input, output any, called, returned int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{ClientId: client, Input: input, Output: output, Call: called, Return: returned})
}

// explain returns an error unless there is an explanation for all operations.
func explain(model porcupine.Model, operations []porcupine.Operation) error {
	result, info := porcupine.CheckOperationsVerbose(model, operations, decideWithin)
	if result == porcupine.Ok {
		return nil
	}
	var b strings.Builder
	if result == porcupine.Illegal {
		b.WriteString("no order explains these operations (the longest attempt, then those left):")
	} else {
		fmt.Fprintf(&b, "it was not found within %v whether an order explains these operations:", decideWithin)
	}
	longest := longestAttempt(info.PartialLinearizationsOperations())
	for n, op := range longest {
		fmt.Fprintf(&b, "\n%4d %s", n+1, describe(model, op))
	}
	left := slices.DeleteFunc(slices.Clone(operations), func(op porcupine.Operation) bool {
		return slices.ContainsFunc(longest, func(o porcupine.Operation) bool { return o.Call == op.Call })
	})
	slices.SortFunc(left, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, op := range left {
		fmt.Fprintf(&b, "\nleft %s", describe(model, op))
	}
	return errors.New(b.String())
}

func longestAttempt(partitions [][][]porcupine.Operation) (longest []porcupine.Operation) {
	for _, attempts := range partitions {
		for _, attempt := range attempts {
			if len(attempt) > len(longest) {
				longest = attempt
			}
		}
	}
	return longest
}

func describe(model porcupine.Model, op porcupine.Operation) string {
	end := fmt.Sprint(op.Return)
	if op.Return == never {
		end = "?"
	}
	return fmt.Sprintf("client %d [%d, %s] %s", op.ClientId, op.Call, end, model.DescribeOperation(op.Input, op.Output))
}
