package watch

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/couchdb"
)

const (
	// couchMissing is the state of a database that does not exist.
	couchMissing = "missing"
	// couchAtOnce is how many databases are requested concurrently.
	couchAtOnce = 4
	// couchStates is how many states of a database in a cluster are remembered.
	couchStates = 16
)

// couchState returns the state of a database, given its earlier state. The two states differ if the database
// has changed, or was replaced with another of the same name.
//
// In a cluster, each copy has its own sequence, and any copy may answer. So all states that copies have
// answered with are kept: a copy with a new change has a state that is not among them.
func couchState(before string, info couchdb.Info) string {
	sum := sha256.Sum256(info.UpdateSeq) // contains the identity of the database
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

// state requests the state of a database, given its earlier state.
func (s *couchServer) state(ctx context.Context, name, before string) (string, error) {
	info, err := s.host.DB(name).Info(ctx)
	if errors.Is(err, couchdb.ErrNotFound) {
		return couchMissing, nil
	}
	if err != nil {
		return "", err
	}
	return couchState(before, info), nil
}
