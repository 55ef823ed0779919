package idle

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// body returns a Body whose source is a pipe, and the end of the pipe to write to. As with net/http, the
// body ends with the context of the request.
func body(t *testing.T) (*Body, *io.PipeWriter) {
	r, w := io.Pipe()
	ctx, cancel := context.WithCancelCause(t.Context())
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	return &Body{
		Src: r, Context: ctx, Cancel: cancel, Timeout: time.Minute,
		Broken: func(err error) error { return errors.Join(errors.New("broken"), err) },
	}, w
}

// TestTimeout: only the time spent waiting for the body counts.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := body(t)
		go func() {
			for range 3 {
				time.Sleep(50 * time.Second)
				_, _ = w.Write([]byte("x"))
			}
		}()
		for range 3 {
			if n, err := b.Read(make([]byte, 10)); n != 1 || err != nil {
				t.Fatalf("%d bytes, %v", n, err)
			}
			time.Sleep(45 * time.Second) // spent by the reader
		}
		begun := time.Now()
		if _, err := b.Read(make([]byte, 10)); !errors.Is(err, ErrTimeout) || err.Error()[:6] != "broken" {
			t.Errorf("error is %v", err)
		}
		if waited := time.Since(begun); waited != time.Minute {
			t.Errorf("waited for %v", waited)
		}
		b.Close()
	})
}

// TestTooSlow: a body that delivers a byte from time to time times out, too, if that is less than Least.
func TestTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, w := body(t)
		b.Least = 10
		go func() {
			_, _ = w.Write(make([]byte, 10))
			for {
				time.Sleep(7 * time.Second)
				if _, err := w.Write([]byte("x")); err != nil {
					return
				}
			}
		}()
		got, begun := 0, time.Now()
		for {
			n, err := b.Read(make([]byte, 100))
			got += n
			if err != nil {
				if !errors.Is(err, ErrTimeout) || got != 18 || time.Since(begun) != time.Minute {
					t.Errorf("%d bytes in %v, then %v", got, time.Since(begun), err)
				}
				break
			}
		}
		b.Close()
		time.Sleep(7 * time.Second) // by then, the writer has got an error and ended
	})
}

// TestClose: Close ends a blocked Read, and the end of a body is not an error.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := body(t)
		go func() {
			synctest.Wait()
			b.Close()
		}()
		if _, err := b.Read(make([]byte, 10)); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
		b, w := body(t)
		go w.Close()
		if _, err := b.Read(make([]byte, 10)); err != io.EOF {
			t.Errorf("at the end: %v", err)
		}
		b.Close()
	})
}
