// Package suggest finds the known name closest to a misspelt one.
package suggest

import "fmt"

// DidYouMean returns a question with the name closest to a misspelt one, to be appended to an
// error, or "" if none is close.
func DidYouMean(name string, names []string, prefix string) string {
	if found := Closest(name, names); found != "" {
		return fmt.Sprintf("; did you mean %q?", prefix+found)
	}
	return ""
}

// Closest returns the name with the fewest differences from name: letters that are added,
// omitted, replaced, or swapped with their neighbour. A name with more than one difference per three letters is not
// close, and a name is not close to itself. If no name is close, Closest returns "".
func Closest(name string, names []string) string {
	best, least := "", max(1, len(name)/3)+1
	for _, candidate := range names {
		if d := differences(name, candidate); 0 < d && d < least {
			best, least = candidate, d
		}
	}
	return best
}

// differences returns the restricted Damerau-Levenshtein distance of two strings, in bytes.
func differences(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
