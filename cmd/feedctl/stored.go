package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/observe"
	"github.com/feedctl/feedctl/storage/stores"
)

// s3Memory is what the S3 driver may hold in buffers, in bytes: pages of the usual
// size are still read whole, and the process stays small; see memoryLimit.
const s3Memory = 24 << 20

// directoryHint returns how the store in a directory is written, as the end of an error about
// an argument that is its path; "" if it is not a path.
func directoryHint(arg, name string) string {
	dir, given, ok := strings.Cut(arg, "#")
	if ok {
		name = "#" + given
	}
	info, err := os.Stat(dir)
	if strings.Contains(dir, ":") || (err != nil || !info.IsDir()) && !strings.HasPrefix(dir, ".") && !filepath.IsAbs(dir) {
		return ""
	}
	return fmt.Sprintf("; for the store in a directory write %q", "file:"+dir+name)
}

// A stored is a feed or a snapshot in a store.
type stored struct {
	store string // URL
	name  string
}

// parseStored reads an argument that names a feed or a snapshot in a store: NAME in
// the store of the --store flag, or STORE#NAME.
func (a *app) parseStored(arg string) (stored, error) {
	at := stored{store: a.store, name: arg}
	store, name, ok := strings.Cut(arg, "#")
	switch {
	case ok && !stores.IsURL(store):
		return stored{}, exit.Usagef("%q is not STORE#NAME, where STORE is %s%s", sink.Redact(arg), stores.Forms, directoryHint(arg, ""))
	case ok && name == "":
		return stored{}, exit.Usagef("%q names nothing after the \"#\": want STORE#NAME", sink.Redact(arg))
	case ok && strings.Contains(name, "#"):
		return stored{}, exit.Usagef("%q has more than one \"#\": in the URL of STORE it is written %%23", sink.Redact(arg))
	case ok:
		at = stored{store, name}
	case isWeb(arg):
		return stored{}, exit.Usagef("%q is on a server: want NAME, in the store of --store, or STORE#NAME", sink.Redact(arg))
	case stores.IsURL(arg):
		return stored{}, exit.Usagef("%q is a store: say what is meant in it, as in %q", sink.Redact(arg), sink.Redact(arg)+"#zones")
	}
	if err := layout.CheckName(at.name); err != nil {
		if !ok && (strings.ContainsAny(arg, ":@") || strings.Contains(arg, "//")) { // a URL with a mistake in it, and perhaps a secret
			err = exit.Usagef("%q is neither NAME, in the store of --store, nor STORE#NAME, where STORE is %s", sink.Redact(arg), stores.Forms)
		}
		return stored{}, err
	}
	return at, nil
}

// identity returns what the feed or snapshot is called where it must be recognized
// again: not by how its store is reached (working directory, region, endpoint), but
// by where it is.
func (s stored) identity() string {
	u := stores.Identity(s.store)
	if u == nil {
		return "" // a store with this URL cannot be opened
	}
	u.Fragment = s.name
	return u.String()
}

// An access says what a command wants of a store, and so whether it may make one and how
// long it waits for its server.
type access struct {
	create bool // makes the store if there is none
	follow bool // waits for its server until a signal comes, others for storeWait
}

// storeWait is how long a command that does not follow waits for the server of a store
// that is away when it begins; storePause is the longest pause between attempts.
const (
	storeWait  = 30 * time.Second
	storePause = 2 * time.Second
)

// openNamed opens the store that an argument, NAME or STORE#NAME, is about. It makes none.
func (a *app) openNamed(ctx context.Context, arg string) (store storage.Store, name string, err error) {
	at, err := a.parseStored(arg)
	if err != nil {
		return nil, "", err
	}
	store, err = a.openStoreAt(ctx, at.store, access{})
	return store, at.name, err
}

// openStoreAt opens a store by its URL.
func (a *app) openStoreAt(ctx context.Context, rawURL string, want access) (storage.Store, error) {
	if !stores.IsURL(rawURL) {
		return nil, exit.Usagef("--store %q is not %s%s", sink.Redact(rawURL), stores.Forms, directoryHint(rawURL, ""))
	}
	if strings.Contains(rawURL, "#") {
		return nil, exit.Usagef("--store %q has a \"#\": STORE#NAME is for arguments; in a path \"#\" is written %%23", sink.Redact(rawURL))
	}
	if err := checkStoreURL(rawURL); err != nil {
		return nil, err
	}
	store, err := await(ctx, a, storePatience(rawURL, want.follow), func() (storage.Store, error) {
		return stores.Open(ctx, rawURL, stores.Options{Create: want.create, Memory: s3Memory})
	})
	if err != nil {
		return nil, hintInit(err, rawURL)
	}
	a.atEnd(store.Close, "store")
	if a.log.Enabled(ctx, slog.LevelDebug) {
		store = observe.Log(store, a.log)
	}
	if counter, ok := storage.As[storage.Counter](store); ok {
		a.counters = append(a.counters, counter)
	} else if a.verbose {
		operations := new(metrics.Tally)
		a.counters = append(a.counters, operations)
		store = observe.Wrap(store, func(_ context.Context, o observe.Operation) { operations.Add(o.Name) })
	}
	return store, nil
}

// hintInit adds to the error of a store that is not there how to make one.
func hintInit(err error, rawURL string) error {
	if !errors.Is(err, storage.ErrNoStore) {
		return err
	}
	return exit.WithHint(err, fmt.Sprintf("another URL; or, to make an empty store there, \"feedctl init %s\"", sink.Redact(rawURL)))
}

// storePatience is the same for all stores.
func storePatience(rawURL string, follow bool) patience {
	p := patience{what: "store", name: sink.Redact(rawURL), away: storage.ErrUnavailable, limit: storeWait, pause: storePause}
	if follow {
		p.limit = -1
	}
	return p
}

// checkStoreURL tells what is wrong with the URL of a store, whatever there is.
func checkStoreURL(rawURL string) error {
	scheme, _, _ := strings.Cut(rawURL, ":")
	scheme = strings.ToLower(scheme)
	if strings.HasPrefix(scheme, "postgres") {
		_, err := parseDatabase("store", rawURL)
		return err
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return exit.Usagef("store %q is no URL: want %s; in a path \"%%\" is written %%25", sink.Redact(rawURL), stores.Forms)
	}
	if err := stores.Check(u); err != nil {
		return exit.Usagef("store %q: %w", sink.Redact(rawURL), err)
	}
	return nil
}
