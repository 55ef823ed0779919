package kinto

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/kintotest"
)

// TestPageRaces: every page of a list is held while records are being changed: some that have been read,
// some on this page, and some that have not been read. Each change reaches the feed through the list,
// and not because all ids are compared at the end of a list read newest first.
func TestPageRaces(t *testing.T) {
	t.Parallel()
	backends := []kintotest.Backend{kintotest.Memory}
	if *long {
		backends = kintotest.Backends
	}
	for _, backend := range backends {
		server := kintotest.StartOwn(t, backend, "paginate_by=7")
		for _, newest := range []bool{false, true} {
			for _, answered := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s newest first %t answered %t", backend, newest, answered), func(t *testing.T) {
					t.Parallel()
					r := newRigOf(t, server.NewCollection(t))
					r.fill(0, racers)
					h := &held{rig: r, newest: newest, answered: answered, read: map[string]bool{}, pages: 12}
					r.client.HTTP = &http.Client{Transport: h}
					r.configure = func(c *Config) {
						c.NewestFirst, c.Reconcile, c.Window = newest, Never, time.Millisecond // nothing is read again
					}
					r.run()
					r.check()
					if h.pages > 0 {
						t.Errorf("%d pages fewer than expected", h.pages)
					}
					if h.compared != newest || h.lost > 0 {
						t.Errorf("all ids were compared: %t, and %d requests were for records found by comparing ids", h.compared, h.lost)
					}
				})
			}
		}
	}
}

// racers is the number of records at the beginning: enough that the older ones are not read to the end
// while pages are held.
const racers = 150

// A held is a transport that holds pages of lists, and changes records meanwhile.
type held struct {
	*rig
	mu       sync.Mutex      // the bridge makes requests at the same time
	newest   bool            // the bridge reads newest first
	answered bool            // hold the response instead of the request
	read     map[string]bool // ids that were on a page
	pages    int             // still to be held
	made     int             // records made
	compared bool            // all ids were requested
	lost     int             // requests for records that were found by comparing ids
}

func (h *held) RoundTrip(q *http.Request) (*http.Response, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	query := q.URL.Query()
	h.compared = h.compared || query.Has("_fields") && !query.Has("deleted")
	if h.compared && query.Has("in_id") {
		h.lost++
	}
	hold := isList(q) && h.pages > 0
	if hold && !h.answered {
		h.pages--
		h.race(nil)
	}
	resp, err := http.DefaultTransport.RoundTrip(q)
	if !hold || err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	var page struct{ Data []struct{ ID string } }
	if err := json.Unmarshal(body, &page); err != nil {
		return nil, err
	}
	var ids []string
	for _, row := range page.Data {
		ids = append(ids, row.ID)
	}
	if h.answered {
		h.pages--
		h.race(ids)
	}
	for _, id := range ids {
		h.read[id] = true
	}
	return resp, nil
}

// race changes, deletes and replaces a record of each kind: those on the held page, those that were
// read, and those to be read next. It also makes a new record.
func (h *held) race(page []string) {
	h.t.Helper()
	kinds := [][]string{page, nil, nil}
	for n := range racers {
		if h.newest {
			n = racers - 1 - n
		}
		id := fmt.Sprint("r", n)
		if h.read[id] {
			kinds[1] = append(kinds[1], id)
		} else {
			kinds[2] = append(kinds[2], id)
		}
	}
	for _, ids := range kinds {
		for i, id := range ids[:min(3, len(ids))] {
			if i > 0 {
				kintotest.Try(h.t, http.MethodDelete, h.url+"/records/"+id, "")
			}
			if i != 1 {
				h.put(id, fmt.Sprintf(`"race":%d`, h.pages))
			}
		}
	}
	h.made++
	h.put(fmt.Sprint("made", h.made), `"n":1`)
}
