package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/origins"
)

const (
	heldFor  = 2 * time.Second  // the interval between queries for the origins that are held
	heldRead = 10 * time.Second // the time limit of a query
)

// Hold returns a transport for watches. It holds back requests to the origins that held returns, since
// only probes may be sent to them; held is [jobs.Scheduler.Held]. The transport also lowers the rate of
// requests to a server that refuses requests as too many, and waits as long as a server asks its clients
// to wait.
func Hold(held func(context.Context) (map[string]time.Duration, error), transport http.RoundTripper) http.RoundTripper {
	return &holding{held: held, transport: transport}
}

type holding struct {
	held      func(context.Context) (map[string]time.Duration, error)
	transport http.RoundTripper
	limiter   origins.Limiter

	mu   sync.Mutex
	read time.Time                // when held was last called
	now  map[string]time.Duration // what it returned
}

// RoundTrip implements [http.RoundTripper].
func (h *holding) RoundTrip(r *http.Request) (*http.Response, error) {
	turn, err := h.begin(r)
	if err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	response, err := h.transport.RoundTrip(r)
	if err != nil {
		turn.Failed()
		return nil, err
	}
	turn.Answered(response)
	return response, nil
}

// begin waits until a request may be sent.
func (h *holding) begin(r *http.Request) (*origins.Turn, error) {
	ctx, origin := r.Context(), origins.Of(r.URL)
	for {
		holds, err := h.holds(ctx, origin)
		if err != nil {
			return nil, err
		}
		if !holds {
			return h.limiter.Begin(ctx, origin, r.Method, origins.MaxRetryAfter)
		}
		if err := backoff.Sleep(ctx, heldFor); err != nil {
			return nil, fmt.Errorf("server %s is down or asks its clients to wait: %w", origin, err)
		}
	}
}

// holds reports whether requests to an origin are held back.
func (h *holding) holds(ctx context.Context, origin string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now == nil || time.Since(h.read) >= heldFor {
		ctx, cancel := context.WithTimeout(ctx, heldRead)
		defer cancel()
		now, err := h.held(ctx)
		if err != nil {
			return false, err
		}
		h.now, h.read = now, time.Now()
	}
	_, holds := h.now[origin]
	return holds, nil
}
