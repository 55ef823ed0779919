package changes_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
)

// TestAhead: the next rows are requested when a response is complete, while its own rows are still
// being handled.
func TestAhead(t *testing.T) {
	inWorld(t, []answer{text(normal("a b", "sb")), text(normal("c d", "sd")), text(normal("e", "se"))}, func(t *testing.T, w *world) {
		f, err := changes.New(w.db, changes.Options{PageRows: 2, BatchRows: 1})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := f.Follow(t.Context(), func(b *changes.Batch) error {
			synctest.Wait()
			got = append(got, fmt.Sprint(b.Rows[0].ID, " after ", len(w.queries())))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a after 2", "b after 2", "c after 3", "d after 3", "e after 3"}, got); diff != "" {
			t.Error(diff)
		}
		if n := f.Stats().Requests; n != 3 {
			t.Errorf("counted %d requests, want 3", n)
		}
	})
}

// TestAheadInVain: a response that was requested ahead is not used if it does not begin where the rows
// before it end, and is closed if those rows are not handled.
func TestAheadInVain(t *testing.T) {
	misleading := `{"last_seq":"sb","results":[` + rows("a") + `,{"seq":"sb","id":"b","changes":[{"rev":"1-x"}],"x":{"last_seq":"sx"}}]}`
	const limit = "feed=normal&limit=2"
	for name, test := range map[string]struct {
		first   answer
		failing bool
		want    []string
	}{
		"misleading":     {text(misleading), false, []string{limit, limit + "&since=sb"}},
		"malformed row":  {text(normal("a !", "sb")), false, []string{limit, limit + "&since=sb"}},
		"handler fails":  {text(normal("a b", "sb")), true, []string{limit, limit + "&since=sb"}},
		"no changes":     {text(`{"results":[],"last_seq":"sb","comment":"\"changes\":\"changes\":"}`), false, []string{limit}},
		"too many words": {text(`{"results":[{"seq":"sb","id":"b","changes":[{"rev":"1-x"}],"x":{"changes":[]}}],"last_seq":"sb"}`), false, []string{limit, limit + "&since=sb"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, []answer{test.first}, func(t *testing.T, w *world) {
				f, err := changes.New(w.db, changes.Options{PageRows: 2})
				if err != nil {
					t.Fatal(err)
				}
				failure := errors.New("no")
				err = f.Follow(t.Context(), func(*changes.Batch) error {
					synctest.Wait()
					if test.failing {
						return failure
					}
					return nil
				})
				if test.failing != errors.Is(err, failure) {
					t.Error(err)
				}
				synctest.Wait()
				if diff := cmp.Diff(test.want, w.queries()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
