package input

import (
	"bytes"
	"runtime"
	"testing"
)

// TestLongLinesAllocate: long lines are not copied again and again while they are being read, and do not share
// memory.
func TestLongLinesAllocate(t *testing.T) {
	const size, count = 3_000_000, 8
	var in bytes.Buffer
	for n := range count {
		in.Write(bytes.Repeat([]byte{'a' + byte(n)}, size))
		in.WriteByte('\n')
	}
	l := lineReader{r: &in, max: DefaultMaxLine}
	lines := make([][]byte, count)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for n := range lines {
		var err error
		if lines[n], err = l.next(); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	// Allow for the memory of the lines, and of the blocks of one line.
	if got := after.TotalAlloc - before.TotalAlloc; got > (count+2)*size {
		t.Errorf("%d lines of %d bytes: allocated %d bytes", count, size, got)
	}
	for n, line := range lines {
		if !bytes.Equal(line, bytes.Repeat([]byte{'a' + byte(n)}, size)) {
			t.Errorf("line %d: %d bytes, beginning with %.5q", n+1, len(line), line)
		}
	}
}
