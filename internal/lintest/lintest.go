// Package lintest checks histories of stores and feeds for linearizability: whether the
// results seen by the clients can be explained by a sequence in which each operation
// takes effect at one moment between its call and its return.
//
// An operation with an unknown outcome may take effect at any time after its call,
// or never. In the history it returns after all others.
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

// decideWithin limits the search for an explanation. Histories are small enough to take a
// fraction of that time.
const decideWithin = 5 * time.Minute

// never is the return time of operations with an unknown outcome.
const never = math.MaxInt64

// A history records the operations of clients and their results. Instead of a clock, it numbers calls and returns in
// their order.
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
		fmt.Fprintf(&b, "no decision within %v whether an order explains these operations:", decideWithin)
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
