package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// scratchPrefix is the prefix of the keys of the objects written to test a store.
const scratchPrefix = "doctor/"

// scratch is the body of the scratch object.
const scratch = "feedctl doctor: this object can be deleted\n"

// cleanupTime limits the removal of the scratch object at the end.
const cleanupTime = 30 * time.Second

type storeVisit struct {
	store   storage.Store
	key     string          // of the scratch object
	first   storage.Version // of the scratch object; "" if it was not created
	second  storage.Version
	removed bool
	failed  bool // further checks are pointless
}

type storeCheck struct {
	name string
	why  string // why it matters
	run  func(*storeVisit, context.Context) result
}

// storeChecks returns the checks of a store, in the order of their dependencies.
func storeChecks() []storeCheck {
	return []storeCheck{
		{"read", "everything depends on it", (*storeVisit).checkRead},
		{"list", "the server's directory, finding the newest snapshot, and pruning need listings", (*storeVisit).checkList},
		{"clock", "a producer whose clock is ahead of the store's is refused", (*storeVisit).checkClock},
		{"write", "nothing can be published", (*storeVisit).checkWrite},
		{"conditions", "two producers would overwrite each other's entities", (*storeVisit).checkConditions},
		{"range", "waiting consumers and resumed downloads read parts of pages", (*storeVisit).checkRange},
		{"list after write", "new feeds and snapshots would not be seen", (*storeVisit).checkListed},
		{"delete", "pages cannot be pruned, nor snapshots deleted", (*storeVisit).checkDelete},
	}
}

// Store examines a store. It writes and removes a small object below "doctor/", and the objects of the store's own probe.
// It returns an error only if ctx ends.
func Store(ctx context.Context, store storage.Store) ([]Finding, error) {
	v := &storeVisit{store: store, key: scratchPrefix + strings.ToLower(rand.Text())}
	defer v.cleanUp(ctx)
	var findings []Finding
	for _, check := range storeChecks() {
		r := skipped("the store cannot be read")
		if !v.failed {
			r = check.run(v, ctx)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("examine store: %w", context.Cause(ctx))
		}
		findings = append(findings, finding(check.name, check.why, r))
	}
	return append(findings, v.probe(ctx)...), nil
}

// Unopened returns the finding for a store that could not be opened.
func Unopened(err error) Finding { return finding("open", "everything depends on it", failed(err)) }

// cleanUp removes the scratch object, even if the examination was interrupted.
func (v *storeVisit) cleanUp(ctx context.Context) {
	if v.first == "" || v.removed {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	_ = v.store.Delete(ctx, v.key) // the body says that it can be deleted
}

// failed returns the problem for a failed operation. The errors of drivers name the
// remedy if it is known.
func failed(err error) result {
	return problem(err.Error(), advice(err))
}

func advice(err error) string {
	switch {
	case errors.Is(err, storage.ErrPermission):
		return "correct the URL, the credentials, the policy of the bucket, or the owner of the directory"
	case errors.Is(err, storage.ErrUnsafe):
		return "use another server, or a newer version of this one; only reading is safe"
	case errors.Is(err, storage.ErrFull):
		return "free space in the store"
	case errors.Is(err, storage.ErrLayout):
		return "correct the URL, or use the version of feedctl that wrote the store"
	}
	return "correct the URL of the store, or check that its server is running and reachable"
}

func (v *storeVisit) checkRead(ctx context.Context) result {
	begun := time.Now()
	_, err := v.store.Stat(ctx, v.key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		v.failed = true
		return failed(err)
	}
	return fine(fmt.Sprintf("a response after %v", time.Since(begun).Round(10*time.Microsecond)))
}

func (v *storeVisit) checkList(ctx context.Context) result {
	for _, err := range v.store.List(ctx, layout.FeedsPrefix, "") {
		switch {
		case errors.Is(err, storage.ErrPermission):
			return warning(err.Error(), "allow listing (s3:ListBucket for the bucket)")
		case err != nil:
			return failed(err)
		}
		return fine("the store has feeds")
	}
	return fine("the store has no feeds yet")
}

func (v *storeVisit) checkClock(ctx context.Context) result {
	clock, ok := storage.As[storage.Clock](v.store)
	if !ok {
		return skipped("the store has no clock")
	}
	begun := time.Now()
	now, err := clock.Now(ctx)
	if err != nil {
		return failed(err)
	}
	skew := now.Sub(begun.Add(time.Since(begun) / 2)).Round(time.Second)
	found := "the store's is " + apart(skew)
	if skew.Abs() > maxClockSkew {
		return problem(found, "set the clock of this machine, or the server's, by NTP")
	}
	return fine(found)
}

func meta(step string) storage.Meta {
	return storage.Meta{ContentType: "text/plain", CacheControl: "no-store", Data: []byte(step)}
}

func (v *storeVisit) checkWrite(ctx context.Context) result {
	version, err := v.store.Create(ctx, v.key, meta("1"), storage.Bytes([]byte(scratch)))
	switch {
	case errors.Is(err, storage.ErrPermission):
		return warning(err.Error(), "allow writing (s3:PutObject), unless you only read (serve, consume)")
	case err != nil:
		return failed(err)
	}
	v.first = version
	return fine("an object was created")
}

const notWritten = "nothing could be written"

func (v *storeVisit) checkConditions(ctx context.Context) result {
	if v.first == "" {
		return skipped(notWritten)
	}
	if _, err := v.store.Create(ctx, v.key, meta("2"), storage.Bytes([]byte("other"))); !errors.Is(err, storage.ErrExists) {
		return notRefused("creating an existing object", err)
	}
	version, err := v.store.Append(ctx, v.key, v.first, meta("3"), storage.Bytes([]byte("more")))
	if err != nil {
		return failed(err)
	}
	v.second = version
	if _, err := v.store.Append(ctx, v.key, v.first, meta("4"), storage.Bytes([]byte("other"))); !errors.Is(err, storage.ErrConflict) {
		return notRefused("appending to an old version", err)
	}
	if _, err := v.store.Replace(ctx, v.key, v.first, meta("5"), storage.Bytes([]byte("other"))); !errors.Is(err, storage.ErrConflict) {
		return notRefused("replacing an old version", err)
	}
	return fine("writes at an outdated version are refused")
}

// notRefused returns the problem for a write that should have been refused.
func notRefused(what string, err error) result {
	if err != nil {
		return failed(fmt.Errorf("%s: %w", what, err))
	}
	return problem(what+" is not refused", "use another server, or a newer version of this one; only reading is safe")
}

func (v *storeVisit) checkRange(ctx context.Context) result {
	if v.second == "" {
		return skipped(notWritten)
	}
	const offset, length = 8, 40
	object, err := v.store.Get(ctx, v.key, offset, length)
	if err != nil {
		return failed(err)
	}
	defer object.Body.Close()
	data, err := io.ReadAll(object.Body)
	if err != nil {
		return failed(err)
	}
	whole := scratch + "more"
	if want := whole[offset:min(offset+length, len(whole))]; string(data) != want || string(object.Meta.Data) != "3" {
		return problem(fmt.Sprintf("a part of an object is %q, not %q", data, want), "check the proxies between this machine and the server")
	}
	return fine("the requested part of an object was returned")
}

func (v *storeVisit) checkListed(ctx context.Context) result {
	if v.first == "" {
		return skipped(notWritten)
	}
	for entry, err := range v.store.List(ctx, v.key, "") {
		switch {
		case errors.Is(err, storage.ErrPermission):
			return skipped("listing is not allowed")
		case err != nil:
			return failed(err)
		case entry.Key == v.key:
			return fine("a new object is listed")
		}
	}
	return problem("a new object is not listed", "use a server with strongly consistent listings")
}

func (v *storeVisit) checkDelete(ctx context.Context) result {
	if v.first == "" {
		return skipped(notWritten)
	}
	if err := v.store.Delete(ctx, v.key); errors.Is(err, storage.ErrPermission) {
		v.removed = true // as far as possible
		return warning(err.Error(), "allow deleting (s3:DeleteObject), unless lifecycle rules delete the objects. Delete "+v.key+" by hand")
	} else if err != nil {
		return failed(err)
	}
	if _, err := v.store.Stat(ctx, v.key); !errors.Is(err, storage.ErrNotFound) {
		return problem("a deleted object still exists", "use a server that is strongly consistent after deletes")
	}
	v.removed = true
	return fine("an object was deleted")
}

// probe runs the store's probe of its server.
func (v *storeVisit) probe(ctx context.Context) []Finding {
	prober, ok := storage.As[storage.Prober](v.store)
	const why = "a producer refuses to write to a server without this guarantee"
	if !ok {
		return nil
	}
	if v.failed {
		return []Finding{finding("server", why, skipped("the store cannot be read"))}
	}
	checks, err := prober.Probe(ctx)
	if errors.Is(err, storage.ErrPermission) && v.first == "" {
		return []Finding{finding("server", why, skipped(notWritten))}
	} else if err != nil {
		return []Finding{finding("server", why, failed(err))}
	}
	var findings []Finding
	for _, c := range checks {
		r := fine(c.Name)
		if !c.OK {
			r = problem("not met: "+c.Name, c.Detail)
		}
		findings = append(findings, finding("server", why, r))
	}
	return findings
}
