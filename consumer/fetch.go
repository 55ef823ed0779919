package consumer

// A fetch opens a page in the background.
type fetch struct {
	r    *reading
	err  error
	done chan struct{}
}

func (s *session) fetch(r *reading) *fetch {
	f := &fetch{r: r, done: make(chan struct{})}
	s.workers.Go(func() {
		defer close(f.done)
		f.err = r.open()
	})
	return f
}

// wait returns the page once its header has been received.
func (f *fetch) wait() (*reading, error) {
	<-f.done
	return f.r, f.err
}

// abandon releases the page. The session must have been cancelled.
func (f *fetch) abandon() {
	<-f.done
	f.r.close()
}
