package file

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// TestWatchRandom changes directories and objects while subscriptions begin and end. The watched
// directories and the notifications are compared with those of a simpler model, which has no tree.
func TestWatchRandom(t *testing.T) {
	for n := range 20 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			m := newWatchModel(t, rand.New(rand.NewPCG(seed, 0)))
			for range 200 {
				m.step()
			}
			m.end()
		})
	}
}

// A watchModel holds a store and its subscriptions, with the hints that are expected from them.
type watchModel struct {
	t       *testing.T
	random  *rand.Rand
	watches *watches
	outside string // a directory outside of the store
	subs    []*modelSub
	ended   []*modelSub
	files   int
	settled chan string // keys of objects that settle wrote, as their hints arrive
}

// A modelSub is a subscription, with the hints received since the last comparison.
type modelSub struct {
	subscription
	hints   []string
	ends    int
	objects map[string]string // content of the objects at the last comparison, by path
}

const settleDir = "settle"

func newWatchModel(t *testing.T, random *rand.Rand) *watchModel {
	s, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &watchModel{t: t, random: random, watches: &s.watches, outside: t.TempDir(), settled: make(chan string, 100)}
	m.check(os.Mkdir(m.path(settleDir), 0o777))
	m.check(s.WatchKeys(t.Context(), settleDir+"/", func(key string) { m.settled <- key }))
	return m
}

func (m *watchModel) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *watchModel) path(dir string) string { return filepath.Join(m.watches.objects, dir) }

// dir returns the path of one of 30 directories, which need not exist.
func (m *watchModel) dir() string {
	path := m.watches.objects
	for range 1 + m.random.IntN(4) {
		path = filepath.Join(path, []string{"a", "b"}[m.random.IntN(2)])
	}
	return path
}

func (m *watchModel) step() {
	switch m.random.IntN(13) {
	case 0, 1:
		m.check(os.MkdirAll(m.dir(), 0o777))
	case 2, 3:
		m.check(os.RemoveAll(m.dir()))
	case 4, 5, 6:
		dir := m.dir()
		m.check(os.MkdirAll(dir, 0o777))
		m.write(filepath.Join(dir, "x"))
	case 7:
		m.move()
	case 8, 9:
		m.subscribe(m.dir())
	case 10:
		m.unsubscribe()
	case 11: // an outdated event, as after moving a directory
		m.watches.handle(m.watches.notifier, fsnotify.Event{Op: fsnotify.Rename, Name: m.dir()})
	default:
		m.compare()
	}
}

// move moves a directory out of the store, or a directory with an object into the store.
func (m *watchModel) move() {
	m.files++
	inside, outside := m.dir(), filepath.Join(m.outside, fmt.Sprint(m.files))
	if _, err := os.Stat(inside); err == nil {
		m.check(os.Rename(inside, outside))
		return
	}
	m.check(os.MkdirAll(filepath.Join(outside, "a"), 0o777))
	m.write(filepath.Join(outside, "a", "x"))
	m.check(os.MkdirAll(filepath.Dir(inside), 0o777))
	m.check(os.Rename(outside, inside))
}

// write changes an object.
func (m *watchModel) write(path string) {
	m.files++
	m.check(os.WriteFile(path+metaSuffix, fmt.Append(nil, m.files), 0o666))
}

func (m *watchModel) subscribe(path string) {
	sub := &modelSub{objects: m.objects(path)}
	sub.path = path
	sub.changed = func(key string) { sub.hints = append(sub.hints, key) }
	sub.end = func() { sub.ends++ }
	m.check(m.watches.add(&sub.subscription))
	m.subs = append(m.subs, sub)
}

func (m *watchModel) unsubscribe() {
	if len(m.subs) == 0 {
		return
	}
	n := m.random.IntN(len(m.subs))
	sub := m.subs[n]
	m.watches.remove(&sub.subscription)
	m.watches.remove(&sub.subscription) // does nothing
	m.subs = slices.Delete(m.subs, n, n+1)
	sub.hints = nil
	m.ended = append(m.ended, sub)
}

// objects returns the content of the objects below a directory.
func (m *watchModel) objects(dir string) map[string]string {
	objects := map[string]string{}
	m.walk(dir, func(path string, isDir bool) {
		if isDir {
			return
		}
		content, err := os.ReadFile(path)
		m.check(err)
		objects[strings.TrimSuffix(path, metaSuffix)] = string(content)
	})
	return objects
}

func (m *watchModel) walk(dir string, visit func(path string, isDir bool)) {
	if _, err := os.Stat(dir); err != nil {
		return
	}
	m.check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			visit(path, d.IsDir())
		}
		return err
	}))
}

// settle waits until the events of all changes have been handled. It writes another object and
// waits for its hint, since events are handled in order.
func (m *watchModel) settle() {
	m.write(m.path(fmt.Sprintf("%s/%d", settleDir, m.files)))
	for key := range m.settled {
		if key == fmt.Sprintf("%s/%d", settleDir, m.files-1) {
			return
		}
	}
}

func (m *watchModel) compare() {
	m.settle()
	m.watches.mu.Lock()
	defer m.watches.mu.Unlock()
	var needed []string
	m.walk(m.watches.objects, func(path string, isDir bool) {
		if isDir && m.needs(path) {
			needed = append(needed, path)
		}
	})
	slices.Sort(needed)
	watched := m.watches.notifier.WatchList()
	slices.Sort(watched)
	if !slices.Equal(watched, needed) {
		m.t.Fatalf("watched:\n%s\nneeded:\n%s", strings.Join(watched, "\n"), strings.Join(needed, "\n"))
	}
	m.compareTree(m.watches.top, watched)
	for _, sub := range m.subs {
		m.compareHints(sub)
	}
	for _, sub := range m.ended {
		if len(sub.hints) > 0 || sub.ends != 1 {
			m.t.Errorf("%s ended %d times, and then had hints %q", sub.path, sub.ends, sub.hints)
		}
	}
}

func (m *watchModel) needs(path string) bool {
	if m.within(path, m.path(settleDir)) || m.within(m.path(settleDir), path) {
		return true
	}
	return slices.ContainsFunc(m.subs, func(sub *modelSub) bool { return m.within(path, sub.path) || m.within(sub.path, path) })
}

// within reports whether path is dir or below it.
func (*watchModel) within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// compareTree compares the tree with the directories that are watched, and with the subscriptions.
func (m *watchModel) compareTree(dir *watchedDir, watched []string) {
	subs := 0
	for _, sub := range m.subs {
		if m.within(sub.path, dir.path) {
			subs++
		}
	}
	if settle := m.path(settleDir); m.within(settle, dir.path) {
		subs++
	}
	_, found := slices.BinarySearch(watched, dir.path)
	if dir.watched != found || dir.below != subs || !found && subs == 0 {
		m.t.Errorf("%s: watched %t, want %t; %d subscriptions, want %d", dir.path, dir.watched, found, dir.below, subs)
	}
	for _, child := range dir.children {
		m.compareTree(child, watched)
	}
}

// compareHints requires a hint for each object that has changed, and none for objects elsewhere.
func (m *watchModel) compareHints(sub *modelSub) {
	now := m.objects(sub.path)
	changed := map[string]bool{}
	for path := range maps.Keys(now) {
		changed[path] = now[path] != sub.objects[path]
	}
	for path := range sub.objects {
		changed[path] = now[path] != sub.objects[path]
	}
	for path, changed := range changed {
		key := path[len(m.watches.objects)+1:]
		if changed && !slices.ContainsFunc(sub.hints, func(hint string) bool {
			return hint == key || strings.HasSuffix(hint, "/") && strings.HasPrefix(key, hint)
		}) {
			m.t.Errorf("subscription to %s: no hint of %s, but of %q", sub.path, key, sub.hints)
		}
	}
	for _, hint := range sub.hints {
		if path := m.path(hint); !m.within(path, sub.path) && !m.within(sub.path, path) {
			m.t.Errorf("subscription to %s: hint of %s", sub.path, hint)
		}
	}
	sub.objects, sub.hints = now, nil
}

// end closes the watches, and checks that each subscription has ended once.
func (m *watchModel) end() {
	m.compare()
	m.check(m.watches.close())
	for _, sub := range slices.Concat(m.subs, m.ended) {
		m.watches.remove(&sub.subscription)
		if sub.ends != 1 {
			m.t.Errorf("%s ended %d times", sub.path, sub.ends)
		}
	}
}

// TestWatchThousands: 10,000 subscriptions begin and end while another one watches all directories.
// If the cost of each depended on the number of the other subscriptions, or of the directories, the
// test would exceed its time limit.
func TestWatchThousands(t *testing.T) {
	const thousands = 10_000
	s := newThousands(t, thousands/10) // the rest of the feeds do not exist
	used := cpu()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make([]<-chan struct{}, 0, thousands)
	for n := range thousands {
		changed, err := s.Watch(ctx, pagesOf(n))
		if err != nil {
			t.Fatal(err)
		}
		ended = append(ended, changed)
	}
	t.Logf("beginning: %v of CPU", cpu()-used)
	used = cpu()
	cancel()
	for _, changed := range ended {
		for range changed {
		}
	}
	t.Logf("ending: %v of CPU", cpu()-used)
	for n := range thousands {
		if _, err := s.Watch(t.Context(), pagesOf(n)); err != nil {
			t.Fatal(err)
		}
	}
	used = cpu()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("closing: %v of CPU", cpu()-used)
}

// newThousands returns a store with the directories of some feeds, and a subscription to all
// directories.
func newThousands(t testing.TB, feeds int) *Store {
	s, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for n := range feeds {
		if err := os.MkdirAll(s.inObjects(pagesOf(n)), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.WatchKeys(t.Context(), "feeds/", func(string) {}); err != nil {
		t.Fatal(err)
	}
	return s
}

func pagesOf(n int) string { return fmt.Sprintf("feeds/f%d/pages/", n) }

// cpu returns the CPU time that the process has used.
func cpu() time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkWatches measures changes while there are 10,000 subscriptions to feeds of two
// directories each, and a subscription to all directories.
func BenchmarkWatches(b *testing.B) {
	const feeds = 10_000
	s := newThousands(b, feeds)
	subscribe := func(n int) *subscription {
		sub := &subscription{path: s.inObjects(pagesOf(n)), changed: func(string) {}, end: func() {}}
		if err := s.watches.add(sub); err != nil {
			b.Fatal(err)
		}
		return sub
	}
	subs := make([]*subscription, feeds)
	for n := range subs {
		subs[n] = subscribe(n)
	}
	measure := func(name string, do func(n int)) {
		b.Run(name, func(b *testing.B) {
			used := cpu()
			n := 0
			for ; b.Loop(); n++ {
				do(n % feeds)
			}
			b.ReportMetric(float64(cpu()-used)/float64(n), "cpu-ns/op")
		})
	}
	measure("remove and add", func(n int) {
		s.watches.remove(subs[n])
		subs[n] = subscribe(n)
	})
	event := func(op fsnotify.Op, name string) func(n int) {
		return func(n int) {
			s.watches.handle(s.watches.notifier, fsnotify.Event{Op: op, Name: filepath.Join(s.inObjects(pagesOf(n)), name)})
		}
	}
	measure("event of an object", event(fsnotify.Write, "000000000001"+metaSuffix))
	measure("event of a directory", event(fsnotify.Create, ""))
}
