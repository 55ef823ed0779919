package s3fault

import (
	"context"
	"net/http"
	"sync"
)

// A Late holds a request that seems to the client to have timed out. The request is sent
// when Release is called, as if it had been in transit.
type Late struct {
	mu   sync.Mutex
	land func(context.Context) (int, error) // nil before there is a request and after it has been released
}

// Hold is the fault that holds the request. A Late holds one request at a time.
func (l *Late) Hold() Fault {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		held, err := copies(r, 1)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.land = func(ctx context.Context) (int, error) {
			response, err := next.RoundTrip(held[0].WithContext(ctx))
			if err != nil {
				return 0, err
			}
			return response.StatusCode, drain(response)
		}
		return nil, ErrTimeout()
	}
}

// Release sends the held request and returns the status of the response, or 0 if there
// is no request.
func (l *Late) Release(ctx context.Context) (status int, err error) {
	l.mu.Lock()
	land := l.land
	l.land = nil
	l.mu.Unlock()
	if land == nil {
		return 0, nil
	}
	return land(ctx)
}
