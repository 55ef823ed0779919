package roundtrip

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/internal/idle"
	"github.com/feedctl/feedctl/internal/origins"
)

// Options change how one request is sent.
type Options struct {
	IdleTimeout time.Duration                               // 0: the client's
	Do          func(*http.Request) (*http.Response, error) // nil: Client.HTTP.Do
	Late        func()                                      // called if there is no response after LateAfter
}

// Send sends a request once, when Limits allows it. In errors, the request is described by the string what, its
// method and URL. If the error is nil, the response may have any status, and the caller must close its body.
func (c *Client) Send(r *http.Request, what string, o Options) (_ *http.Response, err error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer func() {
		if err != nil {
			cancel(nil)
		}
	}()
	turn, err := c.Limits.Begin(ctx, origins.Of(r.URL), r.Method, origins.MaxRetryAfter)
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	r = r.WithContext(ctx)
	d := newDeadline(c.HeaderTimeout, o.Late, func() { cancel(errHeaderTimeout) })
	d.watch(r)
	do := o.Do
	if do == nil {
		do = c.HTTP.Do
	}
	resp, err := do(r)
	if !d.stop() && err == nil {
		resp.Body.Close() // the deadline came first: the body is already cancelled
		err = errHeaderTimeout
	}
	if err != nil {
		turn.Failed()
		if errors.Is(context.Cause(ctx), errHeaderTimeout) {
			err = errHeaderTimeout
			c.HTTP.CloseIdleConnections() // idle connections may be broken, too
		}
		return nil, unanswered(what, err)
	}
	turn.Answered(resp)
	resp.Body = &idle.Body{Src: resp.Body, Context: ctx, Cancel: cancel, Timeout: cmp.Or(o.IdleTimeout, c.IdleTimeout), Broken: func(err error) error {
		if errors.Is(err, idle.ErrTimeout) {
			c.HTTP.CloseIdleConnections() // idle connections may be broken, too
		}
		return Broken(what, err)
	}}
	return resp, nil
}
