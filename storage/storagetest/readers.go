package storagetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/storage"
)

// testReaders reads objects continuously while they are being appended to or replaced. Each read
// must return a single state, which must not be older than that of the previous read.
func testReaders(t *testing.T, s *suite) {
	const states = 25
	for _, verb := range []string{"append", "replace"} {
		key := s.key("readers-" + verb)
		s.create(t, key, claimOf(verb, 0, nil), "")
		var acknowledged atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				last := 0
				for ctx.Err() == nil {
					floor := acknowledged.Load()
					_, c, err := whole(t.Context(), s.store, key)
					if err != nil {
						t.Error(err)
						return
					}
					if c.N < last || c.N < int(floor) {
						t.Errorf("%s: read state %d after %d was read and %d acknowledged", key, c.N, last, floor)
						return
					}
					last = c.N
				}
			})
		}
		var body []byte
		info, err := s.store.Stat(t.Context(), key)
		version := info.Version
		for n := 1; n <= states && err == nil; n++ {
			piece := bytes.Repeat(fmt.Appendf(nil, "%04d", n), 1000)
			if verb == "append" {
				body = append(body, piece...)
				version, err = s.store.Append(t.Context(), key, version, claimOf(verb, n, body), storage.Bytes(piece))
			} else {
				version, err = s.store.Replace(t.Context(), key, version, claimOf(verb, n, piece), storage.Bytes(piece))
			}
			acknowledged.Store(int64(n))
		}
		if err != nil {
			t.Error(err)
		}
		stop()
		readers.Wait()
	}
}
