package kinto_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/internal/memnet"
	client "github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/sink/kinto"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// A lateServer can carry out a request late. Time is fake.
type lateServer struct {
	t    *testing.T
	net  *memnet.Net
	root string
	// lose is a string in the request that is kept instead of being carried out. The client gets no
	// answer to it, and none to later requests if kill is set.
	lose string
	kill bool
	lost []byte
}

// inLateWorld runs a test in fake time.
func inLateWorld(t *testing.T, test func(t *testing.T, s *lateServer)) {
	synctest.Test(t, func(t *testing.T) {
		s := &lateServer{t: t, net: memnet.New(t, kintotest.NewHandler()), root: "http://" + rand.Text() + "/v1"}
		s.do(http.MethodPut, "/buckets/b", nil)
		test(t, s)
	})
}

func (s *lateServer) do(method, path string, body []byte) (answer string) {
	s.t.Helper()
	q := must(http.NewRequestWithContext(context.WithoutCancel(s.t.Context()), method, s.root+path, bytes.NewReader(body)))
	response, err := s.net.Client().Do(q)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	return string(must(io.ReadAll(response.Body)))
}

func (s *lateServer) open(through transport) *kinto.Sink {
	s.t.Helper()
	k, err := kinto.Open(s.t.Context(), client.Config{URL: s.root + "/buckets/b/collections/c", HTTP: &http.Client{Transport: through}}, "")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { k.Close() })
	return k
}

func (s *lateServer) answer(r *http.Request) (*http.Response, error) {
	return s.net.Client().Transport.RoundTrip(r)
}

func (s *lateServer) fail(r *http.Request) (*http.Response, error) {
	if s.lose != "" && r.Method == http.MethodPost && bodyHas(r, s.lose) {
		s.lose = ""
		s.lost = must(io.ReadAll(r.Body))
		return nil, errKilled
	}
	if s.lost != nil && s.kill {
		return nil, errKilled
	}
	return s.answer(r)
}

// carryOut carries out the lost request after some time.
func (s *lateServer) carryOut(after time.Duration) (done chan struct{}) {
	done = make(chan struct{})
	if s.lost == nil {
		s.t.Fatal("no request was lost")
	}
	go func() {
		time.Sleep(after)
		s.do(http.MethodPost, "/batch", s.lost)
		close(done)
	}()
	return done
}

// lacks checks that there is no record x.
func (s *lateServer) lacks() {
	s.t.Helper()
	if got := s.do(http.MethodGet, "/buckets/b/collections/c/records?_fields=x", nil); bytes.Contains([]byte(got), []byte(`"x"`)) {
		s.t.Errorf("a late request has created %s", got)
	}
}

// Parts of requests of creationAndDeletion: the one that creates the record x, and its announcement.
const (
	creation     = `"x":1`
	announcement = `2@example.com`
)

// creationAndDeletion returns batches that create the record x and delete it.
func creationAndDeletion() [][]*feed.Entity {
	return [][]*feed.Entity{{put(1, "a", `{"a":1}`)}, {put(2, "x", `{"x":1}`)}, {put(3, "a", `{"a":2}`)}, {remove(4, "x")}, {put(5, "a", `{"a":3}`)}}
}

// TestLateCreation: a record that a late request creates after its deletion does not remain.
func TestLateCreation(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{2 * time.Second, 5 * time.Second, 8 * time.Second} {
		t.Run("killed", func(t *testing.T) {
			inLateWorld(t, func(t *testing.T, s *lateServer) {
				first := s.open(s.fail)
				mustWrite(t, first, creationAndDeletion()[0]...)
				s.lose, s.kill = creation, true
				if err := sinktest.Write(t.Context(), first, creationAndDeletion()[1]...); err == nil {
					t.Error("nothing was lost")
				}
				first.Close()
				done := s.carryOut(after)
				if err := sinktest.Continue(t, s.open(s.answer), creationAndDeletion()); err != nil {
					t.Error(err)
				}
				<-done
				s.lacks()
			})
		})
	}
	t.Run("same consumer", func(t *testing.T) {
		inLateWorld(t, func(t *testing.T, s *lateServer) {
			s.lose = creation
			k := s.open(s.fail)
			if err := sinktest.Continue(t, k, creationAndDeletion()[:3]); err != nil {
				t.Error(err)
			}
			done := s.carryOut(8 * time.Second)
			if err := sinktest.Continue(t, k, creationAndDeletion()); err != nil {
				t.Error(err)
			}
			<-done
			s.lacks()
		})
	})
	t.Run("lost by the previous consumer", func(t *testing.T) {
		inLateWorld(t, func(t *testing.T, s *lateServer) {
			s.lose = creation
			first := s.open(s.fail)
			if err := sinktest.Continue(t, first, creationAndDeletion()[:3]); err != nil {
				t.Error(err)
			}
			first.Close()
			done := s.carryOut(8 * time.Second)
			if err := sinktest.Continue(t, s.open(s.answer), creationAndDeletion()); err != nil {
				t.Error(err)
			}
			<-done
			s.lacks()
		})
	})
}

// TestLateAnnouncement: an earlier consumer announces and creates a record late. The server had compared
// the stamp of the position before another consumer took over.
func TestLateAnnouncement(t *testing.T) {
	t.Parallel()
	inLateWorld(t, func(t *testing.T, s *lateServer) {
		first := s.open(s.fail)
		mustWrite(t, first, creationAndDeletion()[0]...)
		s.lose, s.kill = announcement, true
		if err := sinktest.Write(t.Context(), first, creationAndDeletion()[1]...); err == nil {
			t.Error("nothing was lost")
		}
		first.Close()
		second := s.open(s.answer)
		s.do(http.MethodPost, "/batch", unconditional(t, s.lost))
		s.lost = []byte(`{"requests":[{"method":"PUT","path":"/buckets/b/collections/c/records/x","headers":{"If-None-Match":"*"},"body":{"data":{"x":1}}}]}`)
		done := s.carryOut(8 * time.Second)
		if err := sinktest.Continue(t, second, creationAndDeletion()); err != nil {
			t.Error(err)
		}
		<-done
		s.lacks()
	})
}

// TestStopped: a consumer that was stopped, as by SIGSTOP, after it had announced a chunk, does not
// write the chunk after another consumer has taken over.
func TestStopped(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	inLateWorld(t, func(t *testing.T, s *lateServer) {
		announced := make(chan struct{})
		stopped := false
		first := s.open(func(r *http.Request) (*http.Response, error) {
			stop := !stopped && r.Method == http.MethodPost && bodyHas(r, announcement)
			response, err := s.answer(r)
			if stop {
				stopped = true
				close(announced)
				time.Sleep(30 * time.Second)
			}
			return response, err
		})
		mustWrite(t, first, creationAndDeletion()[0]...)
		ended := make(chan error)
		go func() { ended <- sinktest.Write(t.Context(), first, creationAndDeletion()[1]...) }()
		<-announced
		t.Setenv("TMPDIR", t.TempDir()) // another host
		if err := sinktest.Continue(t, s.open(s.answer), creationAndDeletion()); err != nil {
			t.Error(err)
		}
		s.lacks()
		if err := <-ended; err == nil {
			t.Error("the consumer that was stopped wrote")
		}
		s.lacks()
	})
}

// TestNoDelay: deletions wait only for records that a lost request may create.
func TestNoDelay(t *testing.T) {
	t.Parallel()
	inLateWorld(t, func(t *testing.T, s *lateServer) {
		k := s.open(s.answer)
		if err := sinktest.Continue(t, k, creationAndDeletion()); err != nil {
			t.Error(err)
		}
		k.Close()
		k = s.open(s.fail)
		s.lose, s.kill = "DELETE", true
		if err := sinktest.Write(t.Context(), k, remove(5, "never"), remove(6, "a"), put(7, "b", `{"n":7}`)); err == nil {
			t.Error("nothing was lost")
		}
		k.Close()
		s.kill = false
		begun := time.Now()
		k = s.open(s.fail)
		s.lose = `"n":8`
		mustWrite(t, k, remove(5, "never"), remove(6, "a"), put(7, "b", `{"n":7}`), put(8, "c", `{"n":8}`))
		mustWrite(t, k, put(9, "never", `{"n":9}`), put(10, "a", `{"n":10}`))
		mustWrite(t, k, remove(11, "never"), remove(12, "a"))
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
