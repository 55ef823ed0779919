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
	// couchAtOnce is the maximum number of databases that are requested concurrently.
	couchAtOnce = 4
	// couchStates is the maximum number of states that are remembered for a database in a cluster.
	couchStates = 16
)

// couchState returns the current state of a database, given its previous state. The two differ if the
// database has changed, or was replaced with another of the same name.
//
// In a cluster, each copy of a database has its own sequence, and any copy may answer. So the states of all
// copies that have answered are kept: if a copy has a new change, its state is not among them.
func couchState(before string, info couchdb.Info) string {
	sum := sha256.Sum256(info.UpdateSeq) // the sequence contains the identity of the database
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

// state requests the current state of a database, given its previous state.
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
