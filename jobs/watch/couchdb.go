package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/credential"
)

// CouchDB watches servers with databases.
//
// CouchDB reports changes to a server admin as they happen (_db_updates), if it has a database
// _global_changes. Some changes may be lost, so all databases are compared every 10 min as well, a
// hundred with one request (_dbs_info). Where CouchDB does not report changes, databases are compared
// every 2 s to 1 min. Where it does not describe many databases in one response either, for example to
// users who are not server admins, each database is requested that often, but at most 20 requests are
// made a second.
type CouchDB struct {
	// Transport makes the requests. If it is nil, each server gets a new transport.
	Transport http.RoundTripper
}

const (
	// couchSweep is the time between comparisons of all databases of a server that reports changes, and
	// the time after which a server that does not report changes is asked for reports again.
	couchSweep = 10 * time.Minute
	// couchConfirm is the interval at which jobs are told that the server still reports changes.
	couchConfirm = time.Minute
	// couchLasting is how long a response must last for the next request to be made soon after it.
	couchLasting = 30 * time.Second
)

// errPosition means that the server does not recognize the position.
var errPosition = errors.New("position is unknown to the server")

// Watch implements [Source].
func (c CouchDB) Watch(ctx context.Context, w *Watched) error {
	s, err := c.open(w)
	if err != nil {
		return err
	}
	if c.Transport == nil {
		defer s.host.CloseIdleConnections()
	}
	for position := json.RawMessage(w.Position); ; position = nil {
		err := s.follow(ctx, position)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errPosition) && position != nil:
			w.Logger.Warn("server does not know the position, comparing all databases", "error", err)
			continue
		case !refused(err):
			return err
		}
		w.Logger.Debug("server does not report changes, comparing databases", "error", err)
		if err := s.poll(ctx); err != nil {
			return err
		}
	}
}

func (c CouchDB) open(w *Watched) (*couchServer, error) {
	config := couchdb.Config{URL: w.Server, Attempts: 3, Log: w.Logger}
	if c.Transport != nil {
		config.HTTP = &http.Client{Transport: c.Transport}
	}
	if w.Credential != "" {
		source, err := credential.ParseReference(w.Credential)
		if err == nil {
			config.Auth, err = source.ReadCouch()
		}
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", w.Server, err)
		}
	}
	host, err := couchdb.OpenHost(config)
	return &couchServer{host: host, watched: w}, err
}

// refused reports whether a server refuses requests of this kind from this user.
func refused(err error) bool {
	return errors.Is(err, couchdb.ErrUnsupported) || errors.Is(err, couchdb.ErrUnauthorized) || errors.Is(err, couchdb.ErrForbidden)
}

// A couchServer is a server that is watched.
type couchServer struct {
	host    *couchdb.Host
	watched *Watched
	each    bool // the server does not describe many databases with one request

	mu        sync.Mutex
	position  json.RawMessage // all changes before this position have been reported
	connected bool            // changes after the position are being reported
}

// follow wakes jobs as the server reports changes after the given position or, if position is nil, from
// now on. It always returns an error.
func (s *couchServer) follow(ctx context.Context, position json.RawMessage) (err error) {
	if len(position) == 0 { // this comes before the comparison, which finds earlier changes
		if position, err = s.host.LastUpdate(ctx); err != nil {
			return err
		}
	}
	s.each = false
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.sweep(ctx) })
	group.Go(func() error { return s.updates(ctx, position) })
	return group.Wait()
}

// sweep compares all databases, at once and then regularly.
func (s *couchServer) sweep(ctx context.Context) error {
	for {
		before, err := s.watched.Jobs.States(ctx)
		if err != nil {
			return err
		}
		found, err := s.compare(ctx, before)
		if err != nil {
			return err
		}
		changed := map[string]string{}
		for name, state := range before {
			if found[name] != state || state == "" {
				changed[name] = found[name]
			}
		}
		if err := s.watched.Jobs.Changed(ctx, changed); err != nil {
			return err
		}
		for next := time.Now().Add(couchSweep); time.Now().Before(next); {
			s.confirm()
			if err := backoff.Sleep(ctx, couchConfirm); err != nil {
				return err
			}
		}
	}
}

// confirm calls Checked if changes are being reported.
func (s *couchServer) confirm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.connected {
		s.watched.Jobs.Checked(string(s.position))
	}
}

// set sets the position, and whether the changes after the position are being reported.
func (s *couchServer) set(position json.RawMessage, connected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position, s.connected = position, connected
}

// updates wakes jobs as the server reports changes after position, until the server refuses to report
// them.
func (s *couchServer) updates(ctx context.Context, position json.RawMessage) error {
	failures := 0
	pause := func() error {
		failures++
		return backoff.Sleep(ctx, backoff.Backoff{Min: time.Second, Max: time.Minute}.After(failures))
	}
	for {
		s.set(position, true)
		begun := time.Now()
		next, err := s.host.Updates(ctx, position, func(some []couchdb.Update) error { return s.woken(ctx, some) })
		if time.Since(begun) >= couchLasting || string(next) != string(position) {
			failures = 0
		}
		position = next
		s.set(position, false)
		switch {
		case couchdb.Status(err) == http.StatusBadRequest && !refused(err):
			return fmt.Errorf("%w: %w", errPosition, err)
		case err != nil && !couchdb.Retryable(err) && !errors.Is(err, couchdb.ErrMalformed):
			return err
		case err != nil:
			s.watched.Logger.Warn("server has stopped reporting changes, retrying", "error", err)
		}
		for up := false; !up; up = err == nil {
			if err := pause(); err != nil {
				return err
			}
			if _, err = s.host.LastUpdate(ctx); err != nil && !couchdb.Retryable(err) {
				return err
			}
		}
	}
}

// woken wakes the jobs of the databases that the server has reported.
func (s *couchServer) woken(ctx context.Context, some []couchdb.Update) error {
	changed := map[string]string{}
	for _, u := range some {
		changed[u.Name] = "" // the database may have changed again
	}
	if err := s.watched.Jobs.Changed(ctx, changed); err != nil {
		return err
	}
	s.set(some[len(some)-1].Seq, true)
	return nil
}

// poll compares databases until it is time to try reports again. Busy databases are compared more often
// than others.
func (s *couchServer) poll(ctx context.Context) error {
	p := poller{watched: s.watched, fastest: 2 * time.Second, slowest: time.Minute, compare: s.compare}
	_, err := s.host.Infos(ctx, []string{"_users"})
	if s.each = refused(err); err != nil && !s.each {
		return err
	}
	if s.each {
		p.round, p.most = time.Second, 20
	} else {
		p.round, p.most = 5*time.Second, 1000 // few requests, each for many databases
	}
	return p.run(ctx, couchSweep)
}

// compare returns the states of databases, given their earlier states. It leaves out databases that
// the server does not describe, and returns an error if that leaves none.
func (s *couchServer) compare(ctx context.Context, states map[string]string) (map[string]string, error) {
	names := slices.Sorted(maps.Keys(states))
	if !s.each {
		infos, err := s.host.Infos(ctx, names)
		if err == nil {
			found := make(map[string]string, len(names))
			for _, name := range names {
				found[name] = couchMissing
				if info, ok := infos[name]; ok {
					found[name] = couchState(states[name], info)
				}
			}
			return found, nil
		}
		if !refused(err) {
			return nil, err
		}
		s.each = true
	}
	return compareEach(ctx, states, couchAtOnce, s.state)
}
