package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// This file reads the output of feedctl without using feedctl's code: lines with encoding/json, pages with net/http
// and mime/multipart.

// readLines returns the Content-IDs in a file of the jsonl sink, in order.
func readLines(t *testing.T, path string) (ids []string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				t.Fatal(err)
			}
			return ids
		}
		var line struct {
			Key       string `json:"key"`
			ContentID string `json:"contentId"`
			Body      struct {
				ID string `json:"id"`
			} `json:"body"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s, line %d: %v", path, len(ids)+1, err)
		}
		if line.Key != line.Body.ID || line.ContentID != line.Body.ID {
			t.Fatalf("%s, line %d: key %q, Content-ID %q, but id %q in the body", path, len(ids)+1, line.Key, line.ContentID, line.Body.ID)
		}
		ids = append(ids, line.ContentID)
	}
}

var link = regexp.MustCompile(`<([^>]*)>\s*;\s*rel="?(\w+)"?`)

// readFeed returns the Content-IDs of all entities of a feed, in order.
func readFeed(t *testing.T, url string) (ids []string) {
	t.Helper()
	var pages [][]string
	for seen := map[string]bool{}; url != ""; {
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", url, response.Status)
		}
		pages = append(pages, readPage(t, url, response))
		links := map[string]string{}
		for _, match := range link.FindAllStringSubmatch(strings.Join(response.Header.Values("Link"), ", "), -1) {
			links[match[2]] = match[1]
		}
		if seen[links["self"]] {
			t.Fatalf("%s occurs twice", links["self"])
		}
		seen[links["self"]] = true
		url = links["prev"]
	}
	slices.Reverse(pages)
	return slices.Concat(pages...)
}

func readPage(t *testing.T, url string, response *http.Response) (ids []string) {
	t.Helper()
	defer response.Body.Close()
	_, params, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	parts := multipart.NewReader(response.Body, params["boundary"])
	for {
		part, err := parts.NextPart()
		if err != nil {
			if len(ids) == 0 || err.Error() != "EOF" {
				t.Fatalf("%s: after %d parts: %v", url, len(ids), err)
			}
			return ids
		}
		ids = append(ids, part.Header.Get("Content-Id"))
	}
}

// checkIDs reports missing entities, duplicates, and entities that are not in the order in which they were published.
func checkIDs(where string, got []string, producers, each int) error {
	next := make([]int, producers)
	for i, id := range got {
		var producer, n int
		if _, err := fmt.Sscanf(id, idFormat, &producer, &n); err != nil || producer >= producers {
			return fmt.Errorf("%s: entity %d is %q, which was never published", where, i, id)
		}
		switch {
		case n < next[producer]:
			return fmt.Errorf("%s: entity %d is %s, a duplicate or out of order: want %d of producer %d", where, i, id, next[producer], producer)
		case n > next[producer]:
			return fmt.Errorf("%s: entity %d is %s: %d entities of producer %d before it are missing", where, i, id, n-next[producer], producer)
		}
		next[producer]++
	}
	for producer, n := range next {
		if n != each {
			return fmt.Errorf("%s: the last %d entities of producer %d are missing", where, each-n, producer)
		}
	}
	return nil
}

func TestCheckIDs(t *testing.T) {
	id := func(producer, n int) string { return fmt.Sprintf(idFormat, producer, n) }
	whole := []string{id(0, 0), id(1, 0), id(1, 1), id(0, 1)}
	if err := checkIDs("whole", whole, 2, 2); err != nil {
		t.Error(err)
	}
	for name, ids := range map[string][]string{
		"lost":        {whole[0], whole[1], whole[3]},
		"lost inside": {whole[0], whole[2], whole[3]},
		"duplicate":   {whole[0], whole[1], whole[1], whole[2], whole[3]},
		"order":       {whole[3], whole[1], whole[2], whole[0]},
		"foreign":     append(slices.Clone(whole), "x"),
		"unknown":     append(slices.Clone(whole), id(2, 0)),
	} {
		if err := checkIDs(name, ids, 2, 2); err == nil {
			t.Errorf("%s: not found", name)
		}
	}
}
