package consumer

// A fetch opens a page in the background.
type fetch struct {
	r    *reading
	url  string
	err  error
	done chan struct{}
	// cancel, if not nil, ends the request of a page that was requested ahead.
	cancel func()
}

func (s *session) fetch(r *reading) *fetch {
	f := &fetch{r: r, url: r.url, done: make(chan struct{})}
	s.workers.Go(func() {
		defer close(f.done)
		f.err = r.open()
	})
	return f
}

// wait returns the page once its header has been received. A page that was requested ahead is
// returned once it is in memory. Such a page is requested again if the request failed, if there was
// another page at its URL, or if the page had no next page, since it may have grown.
func (f *fetch) wait() (*reading, error) {
	<-f.done
	if f.cancel == nil {
		return f.r, f.err
	}
	if f.err == nil && f.r.body.ended() && f.r.page.URL == f.url && !f.r.page.Newest() {
		f.r.ahead = false
		return f.r, nil
	}
	f.r.close()
	r := f.r.s.newReading(f.url)
	return r, r.open()
}

// ready reports whether wait would return at once, with a page that is in memory or has filled its
// buffer.
func (f *fetch) ready() bool {
	select {
	case <-f.done:
		return f.err == nil && f.r.body.settled()
	default:
		return false
	}
}

// failed reports whether a page that was requested ahead cannot be used.
func (f *fetch) failed() bool {
	select {
	case <-f.done:
		return f.err != nil || f.r.body.settled() && !f.r.body.whole()
	default:
		return false
	}
}

// abandon releases the page. The session must have been cancelled, or the page must have been
// requested ahead.
func (f *fetch) abandon() {
	if f.cancel != nil {
		f.cancel()
	}
	<-f.done
	f.r.close()
}
