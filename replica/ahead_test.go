package replica_test

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/replica"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestReadAhead: while a page is being written, the next pages are read, as many as fit into memory.
func TestReadAhead(t *testing.T) {
	const pages = 40
	for name, test := range map[string]struct{ memory, least, most int64 }{
		"default":      {0, 10, 20},
		"room for one": {1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from, to := memory.New(), memory.New()
				check(t, publish(t.Context(), from, "a", 1, 3*pages))
				var read, written atomic.Int64
				source := fault.Wrap(from, func(op fault.Op) fault.Outcome {
					if op.Verb == fault.Get && strings.HasPrefix(op.Key, layout.FeedPages("a")) {
						read.Add(1)
					}
					return fault.Pass
				})
				target := fault.Wrap(to, func(op fault.Op) fault.Outcome {
					if op.Verb == fault.Create && strings.HasPrefix(op.Key, layout.FeedPages("a")) {
						synctest.Wait() // until reading pauses
						ahead := read.Load() - written.Add(1)
						if ahead < min(test.least, pages-written.Load()) || ahead > test.most {
							t.Errorf("page %d is written with %d pages read ahead", written.Load(), ahead)
						}
					}
					return fault.Pass
				})
				check(t, replica.New(source, target, replica.Config{Memory: test.memory}).Run(t.Context()))
				equal(t, from, to)
				if read.Load() != pages || written.Load() != pages {
					t.Errorf("%d pages were read, %d written", read.Load(), written.Load())
				}
			})
		})
	}
}

// TestLarge: pages that are too large to be read ahead are copied, too.
func TestLarge(t *testing.T) {
	from, to := memory.New(), memory.New()
	for n, size := range []int{5 << 20, 3 << 20, 10, 2 << 20} {
		e := entity(n)
		e.Body = bytes.Repeat([]byte{'a' + byte(n)}, size)
		f, err := producer.Open(t.Context(), from, "a", producer.Config{MaxPageBytes: 6 << 20})
		check(t, err)
		_, err = f.Publish(t.Context(), e)
		check(t, err)
		check(t, f.Close())
		if n != 1 { // then two at a time
			check(t, replica.New(from, to, replica.Config{}).Run(t.Context()))
			equal(t, from, to)
		}
	}
}
