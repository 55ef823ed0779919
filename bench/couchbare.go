package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"
)

// The requests of a bridge that fetches documents separately.
const (
	bridgePage     = 2000 // rows of the changes feed
	bridgeDocs     = 100  // documents
	bridgeFetchers = 4    // requests for documents at a time
)

// fetchBare makes the requests that a bridge makes for all leaves, or for attachments, with the
// same concurrency, and discards the documents. It returns how long that takes a client that does
// no other work.
func (b *bench) fetchBare(db string, attachments bool, accept string) (time.Duration, error) {
	start := time.Now()
	query := "?revs=true"
	if attachments {
		query += "&attachments=true"
	}
	type leaf struct {
		ID  string `json:"id"`
		Rev string `json:"rev"`
	}
	var fetching errgroup.Group
	fetching.SetLimit(bridgeFetchers)
	fetch := func(leaves []leaf) {
		fetching.Go(func() error {
			body, err := json.Marshal(map[string]any{"docs": leaves})
			if err != nil {
				return err
			}
			return b.discard(http.MethodPost, db+"/_bulk_get"+query, accept, body)
		})
	}
	since := "0"
	for {
		var page struct {
			Results []struct {
				ID      string
				Changes []struct{ Rev string }
			}
			Last json.RawMessage `json:"last_seq"`
		}
		if err := b.getJSON(fmt.Sprintf("%s/_changes?style=all_docs&limit=%d&since=%s", db, bridgePage, url.QueryEscape(since)), &page); err != nil {
			return 0, err
		}
		if len(page.Results) == 0 {
			break
		}
		var leaves []leaf
		for _, row := range page.Results {
			for _, change := range row.Changes {
				if leaves = append(leaves, leaf{row.ID, change.Rev}); len(leaves) == bridgeDocs {
					fetch(leaves)
					leaves = nil
				}
			}
		}
		if len(leaves) > 0 {
			fetch(leaves)
		}
		since = string(bytes.Trim(page.Last, `"`))
	}
	err := fetching.Wait()
	return time.Since(start), err
}

func (b *bench) getJSON(address string, to any) error {
	r, err := http.NewRequestWithContext(b.ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", r.URL.Redacted(), response.Status)
	}
	return json.NewDecoder(response.Body).Decode(to)
}

// discard makes a request and throws the response away.
func (b *bench) discard(method, address, accept string, body []byte) error {
	r, err := http.NewRequestWithContext(b.ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, r.URL.Redacted(), response.Status)
	}
	return nil
}
