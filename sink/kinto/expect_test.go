package kinto_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/httpfault"
	"github.com/feedctl/feedctl/internal/kintotest"
	client "github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/kinto"
)

// rowsOf returns the rows of a collection, and the position of its consumer.
func rowsOf(t *testing.T, url string) (map[string]*sink.Row, feed.Position) {
	t.Helper()
	contents, err := kinto.OpenContents(t.Context(), client.Config{URL: url}, sink.Spec{Scheme: "kinto", Path: url})
	if err != nil {
		t.Fatal(err)
	}
	defer contents.Close()
	rows := make(map[string]*sink.Row)
	for row, err := range contents.Rows(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		rows[row.Key] = &row
	}
	return rows, contents.Position()
}

// writeExpected writes entities in one batch, if the records are as in rows.
func writeExpected(ctx context.Context, k consumer.Sink, rows map[string]*sink.Row, entities ...*feed.Entity) error {
	at, err := k.Position(ctx)
	if err != nil {
		return err
	}
	b, err := k.Begin(ctx)
	if err != nil {
		return err
	}
	for _, e := range entities {
		err := b.(interface {
			Expect(ctx context.Context, key string, was *sink.Row) error
		}).Expect(ctx, e.Key(), rows[e.Key()])
		if err = errors.Join(err, b.Apply(ctx, e)); err != nil {
			return err
		}
	}
	return b.Commit(ctx, at)
}

// TestExpectFaults lets each request of a batch with expectations fail in different ways. The records end up
// as if no request had failed, and the position stays as it was.
func TestExpectFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]httpfault.Fault{
		"answer lost": kintotest.Lose(),
		"answer cut":  httpfault.Cut(20),
		"unavailable": kintotest.Refuse(503, 201, "later"),
		"too large":   kintotest.Refuse(413, 113, "too large"),
	} {
		t.Run(name, func(t *testing.T) {
			for n, failed := 1, true; failed; n++ {
				f := kintotest.NewFake(t)
				url := f.NewCollection(t)
				k := open(t, url, 3, nil)
				mustWrite(t, k, put(1, "kept", "{}"), put(2, "old", "{}"), put(3, "extra", "{}"), put(4, "edited", "{}"))
				mustWrite(t, k, put(5, "last", "{}"))
				rows, before := rowsOf(t, url)
				kintotest.Send(t, http.MethodPut, url+"/records/edited", `{"data":{"n":"by hand"}}`)
				count, on := 0, httpfault.On("", "")
				if name == "too large" {
					on = httpfault.On(http.MethodPost, "/batch")
				}
				failed = false
				f.Inject(0, on, func(w http.ResponseWriter, r *http.Request, healthy http.HandlerFunc) {
					if count++; count != n {
						healthy(w, r)
						return
					}
					failed = true
					fault(w, r, healthy)
				})
				var changed *sink.ChangedError
				err := writeExpected(t.Context(), k, rows, put(12, "old", `{"n":"new"}`), remove(3, "extra"), put(14, "edited", `{}`), put(15, "missing", `{}`))
				if !errors.As(err, &changed) || !slices.Equal(changed.Keys, []string{"edited"}) {
					t.Fatalf("request %d failed: %v, want that \"edited\" has changed", n, err)
				}
				f.Heal()
				checkListing(t, url, map[string]string{"kept": "{}", "old": `{"n":"new"}`, "edited": `{"n":"by hand"}`, "missing": "{}", "last": "{}"})
				rows, after := rowsOf(t, url)
				if after.ContentID != before.ContentID {
					t.Fatalf("request %d failed: the position is %v, was %v", n, after, before)
				}
				if got := slices.Sorted(maps.Keys(rows)); fmt.Sprint(got) != "[kept last missing old]" {
					t.Fatalf("request %d failed: rows %q", n, got)
				}
			}
		})
	}
}
