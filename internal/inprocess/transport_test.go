package inprocess_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/inprocess"
)

func handle(h http.HandlerFunc) *http.Client { return &http.Client{Transport: inprocess.Transport(h)} }

func TestTransportRequest(t *testing.T) {
	client := handle(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.Method != "POST" || r.Host != "h:1" || r.URL.String() != "/a%2Fb?c=d" || r.RequestURI != "/a%2Fb?c=d" || r.TLS == nil ||
			r.Header.Get("X") != "y" || string(body) != "body" || err != nil {
			t.Errorf("got %+v with %q, %v", r, body, err)
		}
		w.Header().Set("X", "sent")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X", "too late")
		_, _ = io.WriteString(w, "answer")
	})
	r, err := http.NewRequest(http.MethodPost, "https://h:1/a%2Fb?c=d#e", strings.NewReader("body"))
	check(t, err)
	r.Header.Set("X", "y")
	response, err := client.Do(r)
	check(t, err)
	if got := readAll(t, response); response.StatusCode != http.StatusTeapot || response.Header.Get("X") != "sent" || string(got) != "answer" || response.ContentLength != -1 {
		t.Errorf("got %s %v %q", response.Status, response.Header, got)
	}
}

func TestTransportStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written, ended bool
		client := handle(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "first")
			_, err := io.WriteString(w, "second")
			written = err == nil
			<-r.Context().Done()
			_, err = io.WriteString(w, "third")
			ended = err != nil
		})
		response, err := client.Get("http://h/")
		check(t, err)
		b := make([]byte, 5)
		_, err = io.ReadFull(response.Body, b)
		check(t, err)
		synctest.Wait()
		if string(b) != "first" || written {
			t.Errorf("got %q; the second write did not wait: %v", b, written)
		}
		_, err = io.ReadFull(response.Body, make([]byte, 6))
		check(t, err)
		synctest.Wait()
		check(t, response.Body.Close())
		synctest.Wait()
		if !written || !ended {
			t.Error("closing the body did not end the handler")
		}
	})
}

func TestTransportCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := handle(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://h/", nil)
		check(t, err)
		if _, err := silent.Do(r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before the header: %v", err)
		}
		hanging := handle(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "some")
			<-r.Context().Done()
		})
		ctx, cancel = context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r, err = http.NewRequestWithContext(ctx, http.MethodGet, "http://h/", nil)
		check(t, err)
		response, err := hanging.Do(r)
		check(t, err)
		if body, err := io.ReadAll(response.Body); string(body) != "some" || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("inside the body: %q, %v", body, err)
		}
		check(t, response.Body.Close())
	})
}

func TestTransportPanics(t *testing.T) {
	if _, err := handle(func(http.ResponseWriter, *http.Request) { panic("oops") }).Get("http://h/"); err == nil || !strings.Contains(err.Error(), "oops") {
		t.Errorf("before the header: %v", err)
	}
	response, err := handle(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "some")
		panic(http.ErrAbortHandler)
	}).Get("http://h/")
	check(t, err)
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); string(body) != "some" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("inside the body: %q, %v", body, err)
	}
}

func TestTransportWithoutBody(t *testing.T) {
	client := handle(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/304" {
			w.WriteHeader(http.StatusNotModified)
		}
		if n, err := io.WriteString(w, "body"); n != 4 || err != nil {
			t.Errorf("write: %d, %v", n, err)
		}
	})
	for _, request := range []struct{ method, path string }{{http.MethodHead, "/"}, {http.MethodGet, "/304"}} {
		r, err := http.NewRequest(request.method, "http://h"+request.path, nil)
		check(t, err)
		response, err := client.Do(r)
		check(t, err)
		if got := readAll(t, response); len(got) > 0 {
			t.Errorf("%s %s: %q", request.method, request.path, got)
		}
	}
}

// A slowSource is a reader that takes a minute for each read.
type slowSource struct{ reading *atomic.Bool }

func (s slowSource) Read(p []byte) (int, error) {
	s.reading.Store(true)
	defer s.reading.Store(false)
	time.Sleep(time.Minute)
	return copy(p, "data"), nil
}

// TestTransportReadsFromSource: the client reads directly from a reader that a handler sends. Even if the
// client disconnects during a read, the handler does not return before the read has ended.
func TestTransportReadsFromSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reading, after atomic.Bool
		sent := make(chan error, 1)
		client := handle(func(w http.ResponseWriter, _ *http.Request) {
			_, err := io.Copy(w, slowSource{&reading})
			after.Store(reading.Load())
			sent <- err
		})
		response, err := client.Get("http://h/")
		check(t, err)
		synctest.Wait()
		if reading.Load() {
			t.Error("the source is read before the client reads")
		}
		if _, err := io.ReadFull(response.Body, make([]byte, 4)); err != nil {
			t.Error(err)
		}
		done := make(chan error)
		go func() {
			_, err := response.Body.Read(make([]byte, 4))
			done <- err
		}()
		synctest.Wait()
		check(t, response.Body.Close())
		<-done
		if err := <-sent; err == nil || after.Load() {
			t.Errorf("the handler ended with %v, while it was read: %t", err, after.Load())
		}
		if _, err := response.Body.Read(make([]byte, 4)); err == nil {
			t.Error("a closed body can be read")
		}
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readAll(t *testing.T, response *http.Response) []byte {
	t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check(t, err)
	return body
}
