package kinto_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/httpfault"
	"github.com/feedctl/feedctl/internal/kintotest"
	client "github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// numbered returns n entities, and the records that they become.
func numbered(n int) (all []*feed.Entity, want map[string]string) {
	want = map[string]string{}
	for i := range n {
		key, body := fmt.Sprintf("r%02d", i), fmt.Sprintf(`{"n":%d}`, i)
		want[key] = body
		all = append(all, put(i, key, body))
	}
	return all, want
}

// TestNotOfRecords: errors that no record has caused end the run, and nothing is refused or skipped.
func TestNotOfRecords(t *testing.T) {
	t.Parallel()
	batch := httpfault.On(http.MethodPost, "/batch")
	announcement := func(r *http.Request) bool { return batch(r) && bodyHas(r, "in_id") }
	changes := func(r *http.Request) bool { return batch(r) && bodyHas(r, `"n":`) }
	spoil := func(from, to string) httpfault.Fault {
		return func(w http.ResponseWriter, r *http.Request, healthy http.HandlerFunc) {
			rewrite(r, from, to)
			healthy(w, r)
		}
	}
	for _, test := range []struct {
		name   string
		match  func(*http.Request) bool
		fault  httpfault.Fault
		status int
	}{
		{"batches are refused", batch, kintotest.Refuse(400, 107, "no batches here"), 400},
		{"batches are too large", batch, kintotest.Refuse(413, 113, "too large"), 413},
		{"announcements fail", announcement, kintotest.Refuse(503, 201, "later"), 503},
		{"position is refused when it is announced", announcement, spoil("/feedctl-positions/records/", "/feedctl-positions/records/-"), 400},
		{"position is refused when it is written", changes, spoil("/feedctl-positions/records/", "/feedctl-positions/records/-"), 400},
		{"list is refused", announcement, spoil("/records?_fields", "/records?_since=x\\u0026_fields"), 400},
		{"collection fails", changes, kintotest.Refuse(503, 201, "later"), 503},
	} {
		for _, n := range []int{1, 8} {
			t.Run(fmt.Sprint(test.name, " ", n), func(t *testing.T) {
				f := kintotest.NewFake(t)
				f.Batch = 5
				url := f.NewCollection(t)
				k := open(t, url, 3, http.DefaultTransport.RoundTrip)
				f.Inject(0, test.match, test.fault)
				all, want := numbered(n)
				err := sinktest.Write(t.Context(), k, all...)
				if client.Status(err) != test.status || errors.Is(err, sink.ErrUnavailable) != (test.status == 503) || k.Rejected().Refused != 0 {
					t.Errorf("got %v, rejected %+v", err, k.Rejected())
				}
				f.Heal()
				if err := sinktest.Continue(t, k, [][]*feed.Entity{all}); err != nil {
					t.Error(err)
				}
				checkListing(t, url, want)
			})
		}
	}
}

// TestPoisonAnywhere: if the server fails on some records of a batch, they are refused, and the others
// are stored.
func TestPoisonAnywhere(t *testing.T) {
	t.Parallel()
	for _, poison := range [][]int{{0}, {1}, {4}, {7}, {0, 1, 2}, {5, 6, 7}, {0, 7}} {
		t.Run(fmt.Sprint(poison), func(t *testing.T) {
			f := kintotest.NewFake(t)
			f.Batch = 9
			url := f.NewCollection(t)
			f.Inject(0, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/batch") && bodyHas(r, "poison") }, kintotest.Refuse(503, 201, "later"))
			k := open(t, url, 3, nil)
			all, want := numbered(8)
			var wantIDs, ids []string
			for _, i := range poison {
				key := fmt.Sprintf("r%02d", i)
				delete(want, key)
				wantIDs = append(wantIDs, key)
				all[i].Body = []byte(`{"x":"poison"}`)
			}
			mustWrite(t, k, all...)
			checkListing(t, url, want)
			for _, r := range k.Rejected().Refusals {
				ids = append(ids, r.ID)
			}
			if slices.Sort(ids); !slices.Equal(ids, wantIDs) {
				t.Errorf("refused %v, want %v", ids, wantIDs)
			}
			if at, err := k.Position(t.Context()); err != nil || at.ContentID != "<7@example.com>" {
				t.Errorf("position: %+v, %v", at, err)
			}
		})
	}
}
