package readers

import (
	"cmp"
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
)

// Config configures a [Tracker]. The zero Config means the defaults.
type Config struct {
	// Max is the maximum number of readers that are remembered: those seen most recently. At most a
	// quarter of them are strangers. A reader takes about 1 KiB of memory, and 3 KiB more for the
	// history of its lag. Zero means 4096.
	Max int
	// Users means that the server checks the credentials of readers, so that the user names in them can
	// be trusted.
	Users bool
	// Now returns the current time. nil means [time.Now].
	Now func() time.Time
	// Logger logs errors at level Debug. nil means no logging.
	Logger *slog.Logger
}

// A Tracker keeps track of the readers of a server's feeds. Its methods may be called concurrently.
type Tracker struct {
	config Config

	mu        sync.Mutex
	byKey     map[key]*entry
	byID      map[string]*entry
	feeds     map[string]*feedState // feeds that have readers
	named     group
	strangers group
	evicted   int64
}

// A key identifies a reader. In the key of a reader that announces a name, agent and network are empty,
// since it may use several programs and addresses.
type key struct{ feed, name, user, agent, network string }

// id returns an opaque identifier of the reader.
func (k key) id() string {
	h := sha256.New()
	for _, part := range []string{k.feed, k.name, k.user, k.agent, k.network} {
		h.Write([]byte(part))
		h.Write([]byte{0}) // occurs in no part
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// An entry is a reader with the information that the tracker needs.
type entry struct {
	Reader      // without Lag
	key         key
	place       *list.Element // in its group
	history     history
	credentials [sha256.Size]byte // digest of the credentials in the last request that was answered
}

// A group is a set of readers with a limit of its own, so that strangers do not displace readers that
// announce a name.
type group struct {
	max   int
	order list.List // holds *entry, the most recently seen first
}

// A feedState is the state of a feed that has readers.
type feedState struct {
	readers map[*entry]struct{}
	head    head
}

// New returns a Tracker without readers.
func New(c Config) *Tracker {
	c.Max = max(2, cmp.Or(c.Max, 4096))
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	strangers := max(1, c.Max/4)
	return &Tracker{
		config: c, byKey: map[key]*entry{}, byID: map[string]*entry{}, feeds: map[string]*feedState{},
		named: group{max: c.Max - strangers}, strangers: group{max: strangers},
	}
}

// seen returns the entry of a reader, adding it if there is none, and marks it as the most recently
// seen. The caller must hold mu.
func (t *Tracker) seen(k key) *entry {
	g := &t.named
	if k.name == "" {
		g = &t.strangers
	}
	if e := t.byKey[k]; e != nil {
		g.order.MoveToFront(e.place)
		return e
	}
	for g.order.Len() >= g.max {
		t.remove(g, g.order.Back().Value.(*entry))
		t.evicted++
	}
	e := &entry{key: k}
	e.ID, e.Feed, e.Name, e.User, e.First = k.id(), k.feed, k.name, k.user, t.config.Now()
	e.place = g.order.PushFront(e)
	t.byKey[k], t.byID[e.ID] = e, e
	f := t.feeds[k.feed]
	if f == nil {
		f = &feedState{readers: map[*entry]struct{}{}}
		t.feeds[k.feed] = f
	}
	f.readers[e] = struct{}{}
	return e
}

// remove forgets a reader. The caller must hold mu.
func (t *Tracker) remove(g *group, e *entry) {
	g.order.Remove(e.place)
	delete(t.byKey, e.key)
	delete(t.byID, e.ID)
	f := t.feeds[e.key.feed]
	delete(f.readers, e)
	if len(f.readers) == 0 {
		delete(t.feeds, e.key.feed)
	}
}

// List returns all readers, in no particular order, and the number of those that were forgotten because
// there were too many.
func (t *Tracker) List() (all []Reader, forgotten int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all = make([]Reader, 0, len(t.byKey))
	for _, f := range t.feeds {
		for e := range f.readers {
			all = append(all, e.reader(f))
		}
	}
	return all, t.evicted
}

// Of returns the readers of the given feed, in no particular order.
func (t *Tracker) Of(feed string) []Reader {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.feeds[feed]
	if f == nil {
		return nil
	}
	all := make([]Reader, 0, len(f.readers))
	for e := range f.readers {
		all = append(all, e.reader(f))
	}
	return all
}

// Reader returns a reader by its ID, with the history of its lag. It returns false if the reader is not
// known.
func (t *Tracker) Reader(id string) (Reader, History, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byID[id]
	if e == nil {
		return Reader{}, History{}, false
	}
	return e.reader(t.feeds[e.key.feed]), e.history.copy(), true
}

// Summary returns how many readers a feed has, and how far behind they are.
func (t *Tracker) Summary(feed string) Summary {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.feeds[feed]
	if f == nil {
		return Summary{}
	}
	s := Summary{Readers: len(f.readers)}
	for e := range f.readers {
		if l := e.lag(f); l.Known && (!s.Known || l.Time > s.Lag) {
			s.Known, s.Lag, s.Trend = true, l.Time, l.Trend
		}
	}
	return s
}

// Feeds returns the number of readers of each feed that has any.
func (t *Tracker) Feeds() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	feeds := make(map[string]int, len(t.feeds))
	for name, f := range t.feeds {
		feeds[name] = len(f.readers)
	}
	return feeds
}

// reader returns the information about a reader of a feed. The caller must hold mu.
func (e *entry) reader(f *feedState) Reader {
	r := e.Reader
	r.Lag = e.lag(f)
	return r
}

func (e *entry) lag(f *feedState) Lag {
	l := f.head.lag(e.Position)
	if l.Known {
		l.Trend = e.history.trend(l.Time)
	}
	return l
}

// saw records the newest page of the feed. The caller must hold mu.
func (f *feedState) saw(h head) {
	if h.page == f.head.page && h.time.Equal(f.head.time) && h.contentID == "" {
		h.contentID = f.head.contentID
	}
	f.head = h
}

// headOf returns the head of a feed whose newest page is p.
func headOf(p *chain.Page, now time.Time) head {
	return head{page: p.Number, time: feed.Truncate(p.Last), contentID: p.LastContentID, checked: now}
}
