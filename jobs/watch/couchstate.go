package watch

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/couchdb"
)

const (
	// couchMissing is the state of a database that does not exist.
	couchMissing = "missing"
	// couchAtOnce is how many databases are requested at the same time.
	couchAtOnce = 4
	// couchStates is how many states of a database in a cluster are remembered.
	couchStates = 16
)

// couchState returns the state of a database that had another one before. It is another than that if
// the database has changed, or is another one of the same name.
//
// In a cluster, each copy has its own sequence, and any of them may answer. So the states of all copies that
// were seen are kept: a copy that has another change has a state that was not seen.
func couchState(before string, info couchdb.Info) string {
	sum := sha256.Sum256(info.UpdateSeq) // which has the identity of the database
	state := base64.RawURLEncoding.EncodeToString(sum[:12])
	if info.Copies() <= 1 || before == couchMissing {
		return state
	}
	seen := strings.Fields(before)
	if slices.Contains(seen, state) {
		return before
	}
	seen = append([]string{state}, seen...)
	return strings.Join(seen[:min(len(seen), couchStates)], " ")
}

// compareEach requests each database.
func (s *couchServer) compareEach(ctx context.Context, states map[string]string, names []string) (map[string]string, error) {
	found := make(map[string]string, len(names))
	var mu sync.Mutex
	var last error
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(couchAtOnce)
	for _, name := range names {
		group.Go(func() error {
			info, err := s.host.DB(name).Info(ctx)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, couchdb.ErrNotFound):
				found[name] = couchMissing
			case err != nil:
				last = err
			default:
				found[name] = couchState(states[name], info)
			}
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if len(found) == 0 && last != nil {
		return nil, last
	}
	return found, nil
}
