package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/human"
)

// printRequests says, with --verbose, what the command has cost.
func (a *app) printRequests() {
	if !a.verbose {
		return
	}
	a.console.Clear()
	took := time.Since(a.begun)
	requests := make(map[string]uint64)
	for _, counter := range a.counters {
		for operation, n := range counter.Requests() {
			requests[operation] += n
		}
	}
	sent := a.web.Requests()
	if a.json {
		_ = writeJSON(a.err, requestsJSON{Seconds: took.Seconds(), Requests: requests, HTTP: sent}) // as printError
		return
	}
	fmt.Fprintf(a.err, "feedctl: took %v%s%s\n", took.Round(time.Millisecond), requestsText(requests, "to the store"), requestsText(sent, "by HTTP"))
}

// requestsText is ", 5 requests to the store: GetObject 3, PutObject 2".
func requestsText(requests map[string]uint64, to string) string {
	if len(requests) == 0 {
		return ""
	}
	total := int64(0)
	var each []string
	for _, operation := range slices.Sorted(maps.Keys(requests)) {
		n := int64(requests[operation])
		total += n
		each = append(each, operation+" "+human.Count(n))
	}
	return fmt.Sprintf(", %s %s: %s", human.Plural(total, "request", "requests"), to, strings.Join(each, ", "))
}
