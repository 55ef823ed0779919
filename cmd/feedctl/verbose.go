package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// printRequests says, with --verbose, what the command has cost.
func (a *app) printRequests() {
	if !a.verbose {
		return
	}
	a.console.clear()
	took := time.Since(a.begun)
	requests := make(map[string]uint64)
	for _, counter := range a.counters {
		for operation, n := range counter.Requests() {
			requests[operation] += n
		}
	}
	if a.json {
		_ = writeJSON(a.err, requestsJSON{Seconds: took.Seconds(), Requests: requests}) // as printError
		return
	}
	fmt.Fprintf(a.err, "feedctl: took %v%s\n", took.Round(time.Millisecond), requestsText(requests))
}

// requestsText is ", 5 requests to the store: GetObject 3, PutObject 2".
func requestsText(requests map[string]uint64) string {
	if len(requests) == 0 {
		return ""
	}
	total := int64(0)
	var each []string
	for _, operation := range slices.Sorted(maps.Keys(requests)) {
		n := int64(requests[operation])
		total += n
		each = append(each, operation+" "+formatCount(n))
	}
	return fmt.Sprintf(", %s to the store: %s", plural(total, "request", "requests"), strings.Join(each, ", "))
}
