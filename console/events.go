package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/layout"
)

// Pages have live parts, which their script replaces when the event stream at /events says that there may be something
// new. A page asks for topics: the name of a feed, "*" for all feeds, and "." for data that reports no changes, such as
// jobs and readers, and is read again every few seconds.
const (
	topicFeeds = "*"
	topicTick  = "."
)

// Limits of event streams.
const (
	maxStreams   = 64               // at the same time
	maxTopics    = 8                // of a stream
	tickEvery    = 5 * time.Second  // of topicTick
	tellEvery    = time.Second      // between events of a stream; changes in this time are reported together
	heartbeat    = 15 * time.Second // without an event
	streamWrite  = 10 * time.Second // in which a client must read an event
	changesWait  = 30 * time.Second // for one request for changes
	changesPause = time.Second      // before another request, if changes cannot be waited for
)

// A hub tells the streams what has changed. It watches the feeds while at least one stream asks for them.
type hub struct {
	feeds *feedstore.Reader // nil: none

	mu       sync.Mutex
	streams  map[*stream]struct{}
	watching context.CancelFunc // nil if the feeds are not watched
	watchers sync.WaitGroup
	closing  chan struct{}
	closed   bool
}

// A stream is one open page.
type stream struct {
	topics  []string
	news    chan struct{}   // has a value if there are pending topics
	pending map[string]bool // the pending topics; guarded by the hub's mu
}

func newHub(feeds *feedstore.Reader) *hub {
	return &hub{feeds: feeds, streams: make(map[*stream]struct{}), closing: make(chan struct{})}
}

// open adds a stream. It returns nil if there are too many, or the hub is closed. All topics are pending: something may
// have changed since the page was made.
func (h *hub) open(topics []string) *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.streams) >= maxStreams {
		return nil
	}
	s := &stream{topics: topics, news: make(chan struct{}, 1), pending: make(map[string]bool)}
	h.streams[s] = struct{}{}
	for _, topic := range topics {
		s.tell(topic)
	}
	if h.feeds != nil && h.watching == nil && s.wantsFeeds() {
		ctx, stop := context.WithCancel(context.Background())
		h.watching = stop
		h.watchers.Go(func() { h.watch(ctx) })
	}
	return s
}

// drop removes a stream.
func (h *hub) drop(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, s)
	for other := range h.streams {
		if other.wantsFeeds() {
			return
		}
	}
	h.stopWatching()
}

// stopWatching stops watching the feeds. The caller must hold mu.
func (h *hub) stopWatching() {
	if h.watching != nil {
		h.watching()
		h.watching = nil
	}
}

// close ends all streams.
func (h *hub) close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.closing)
	}
	h.stopWatching()
	h.mu.Unlock()
	h.watchers.Wait()
}

// watch tells the streams which feeds have changed, until ctx ends.
func (h *hub) watch(ctx context.Context) {
	token := ""
	for ctx.Err() == nil {
		c, err := h.feeds.Changes(ctx, token, "", 1000, changesWait)
		switch {
		case errors.Is(err, feedstore.ErrToken):
			token = ""
			continue
		case err == nil:
			token = c.Token
			h.tell(c.Feeds)
		}
		if err != nil || len(c.Feeds) == 0 && !c.Waited {
			select {
			case <-time.After(changesPause):
			case <-ctx.Done():
			}
		}
	}
}

// tell tells the streams that feeds have changed.
func (h *hub) tell(feeds []feedstore.FeedVersion) {
	if len(feeds) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams {
		s.tell(topicFeeds)
		for _, f := range feeds {
			s.tell(f.Name)
		}
	}
}

// tell marks a topic as pending if the stream asks for it. The caller must hold the hub's mu.
func (s *stream) tell(topic string) {
	if !slices.Contains(s.topics, topic) {
		return
	}
	s.pending[topic] = true
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *stream) wantsFeeds() bool {
	return slices.ContainsFunc(s.topics, func(topic string) bool { return topic != topicTick })
}

// take returns the pending topics, and clears them.
func (h *hub) take(s *stream) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var topics []string
	for _, topic := range s.topics {
		if s.pending[topic] {
			topics = append(topics, topic)
		}
	}
	clear(s.pending)
	return topics
}

// tick marks topicTick as pending.
func (h *hub) tick(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.tell(topicTick)
}

// answer sends server-sent events (HTML, section 9.2) in response to "/events", until the client disconnects. The event
// "change" lists the topics that may have changed.
func (h *hub) answer(c *Console, w http.ResponseWriter, r *http.Request) {
	topics := r.URL.Query()["topic"]
	slices.Sort(topics)
	topics = slices.Compact(topics)
	onlyTick := slices.Equal(topics, []string{topicTick})
	r, err := c.mayShow(w.Header(), r, &route{forJobs: onlyTick})
	if err != nil {
		c.fail(w, r, err)
		return
	}
	if len(topics) == 0 || len(topics) > maxTopics || slices.ContainsFunc(topics, func(topic string) bool {
		return topic != topicFeeds && topic != topicTick && layout.CheckName(topic) != nil
	}) {
		c.fail(w, r, badRequest("The topics of events are 1 to %d names of feeds, %q for all feeds, or %q for the rest.", maxTopics, topicFeeds, topicTick))
		return
	}
	s := h.open(topics)
	if s == nil {
		w.Header().Set("Retry-After", "30")
		c.fail(w, r, problem.New(http.StatusServiceUnavailable, "too-many-streams", "Too many pages are open: this one is not updated."))
		return
	}
	defer h.drop(s)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy must not hold events back until there are more
	h.serve(r.Context(), w, s)
}

// serve sends the events of a stream.
func (h *hub) serve(ctx context.Context, w http.ResponseWriter, s *stream) {
	ticks, beats := time.NewTicker(tickEvery), time.NewTicker(heartbeat)
	defer ticks.Stop()
	defer beats.Stop()
	quiet := time.NewTimer(tellEvery) // until the next event may be sent
	defer quiet.Stop()
	if send(w, "retry: 2000\n\n") != nil {
		return
	}
	may := false
	for {
		news := s.news
		if !may {
			news = nil
		}
		text := ":\n\n"
		select {
		case <-quiet.C:
			may = true
			continue
		case <-ticks.C:
			h.tick(s)
			continue
		case <-news:
			text = "event: change\ndata: " + strings.Join(h.take(s), " ") + "\n\n"
			may = false
			quiet.Reset(tellEvery)
		case <-beats.C:
		case <-ctx.Done():
			return
		case <-h.closing:
			return
		}
		if send(w, text) != nil {
			return
		}
	}
}

// send sends a part of a stream, and waits at most streamWrite for the client.
func send(w http.ResponseWriter, text string) error {
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := w.Write([]byte(text)); err != nil {
		return err
	}
	return control.Flush()
}
