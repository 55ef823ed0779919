package pageindex_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/feedctl/feedctl/pageindex"
)

var at = &url.URL{Scheme: "https", Host: "example.org", Path: "/feeds/f/index/1"}

func TestParse(t *testing.T) {
	tile, err := pageindex.Parse(strings.NewReader(`{"tile":1,"full":true,"prev":"0","next":"2","later":[1],"pages":[
		{"number":300,"url":"../pages/300","bytes":5},{"number":301,"url":"https://u:p@cdn.example/301#x"}]}`), at)
	if err != nil {
		t.Fatal(err)
	}
	if tile.Prev != "https://example.org/feeds/f/index/0" || tile.Next != "https://example.org/feeds/f/index/2" ||
		tile.Pages[0].URL != "https://example.org/feeds/f/pages/300" || tile.Pages[1].URL != "https://cdn.example/301" || !tile.Full {
		t.Errorf("%+v", tile)
	}
}

func TestParseInvalid(t *testing.T) {
	for name, text := range map[string]string{
		"empty":           "",
		"not JSON":        "<html>",
		"another TimeMap": `{"original_uri":"http://example.org","mementos":{"list":[]}}`,
		"truncated":       `{"pages":[{"number":1,"url":"a"}`,
		"a gap":           `{"pages":[{"number":1,"url":"a"},{"number":3,"url":"c"}]}`,
		"another order":   `{"pages":[{"number":2,"url":"b"},{"number":1,"url":"a"}]}`,
		"twice":           `{"pages":[{"number":1,"url":"a"},{"number":1,"url":"a"}]}`,
		"no URL":          `{"pages":[{"number":1}]}`,
		"malformed URL":   `{"pages":[{"number":1,"url":"%zz"}]}`,
		"another scheme":  `{"pages":[{"number":1,"url":"file:///etc/passwd"}]}`,
		"next tile":       `{"pages":[],"next":"javascript:x"}`,
		"endless":         `{"pages":[` + strings.Repeat(" ", pageindex.MaxBytes) + `]}`,
	} {
		if _, err := pageindex.Parse(strings.NewReader(text), at); !errors.Is(err, pageindex.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := pageindex.Parse(iotest.ErrReader(iotest.ErrTimeout), at); !errors.Is(err, iotest.ErrTimeout) || errors.Is(err, pageindex.ErrInvalid) {
		t.Errorf("error of a failing reader: %v", err)
	}
}

func TestSpan(t *testing.T) {
	for n, tile := range map[int64]int64{1: 0, 256: 0, 257: 1, 512: 1, 513: 2} {
		first, last := pageindex.Span(tile)
		if pageindex.TileOf(n) != tile || n < first || n > last || last-first != pageindex.Size-1 {
			t.Errorf("TileOf(%d) = %d, but tile %d spans pages %d to %d", n, pageindex.TileOf(n), tile, first, last)
		}
	}
}
