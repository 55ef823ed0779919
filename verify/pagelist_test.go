package verify

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// TestPageList compares a list on disk with a slice.
func TestPageList(t *testing.T) {
	for _, n := range []int{0, 1, listBlock - 1, listBlock, 3*listBlock + 7} {
		dir := t.TempDir()
		l := pageList{dir: dir}
		var want []listed
		for i := range n {
			p := listed{url: fmt.Sprint("http://x/", i), nameless: i%2 == 0, final: i%3 == 0, chain: feed.Chain{Self: fmt.Sprint(i)}}
			if i%5 > 0 {
				p.modified = time.Unix(int64(i), 0).UTC()
			}
			if l.has(p.url) {
				t.Errorf("%d of %d was found before it was added", i, n)
			}
			l.add(p)
			want = append([]listed{p}, want...)
		}
		l.reverse()
		for range 2 * listBlock {
			p := listed{url: fmt.Sprint("http://x/", len(want))}
			l.add(p)
			want = append(want, p)
		}
		for i, p := range want {
			if got := l.at(i); got != p || !l.has(p.url) {
				t.Fatalf("page %d of %d: %+v, want %+v", i, n, got, p)
			}
		}
		numbers := l.numbers(map[string]bool{want[0].url: true, want[len(want)-1].url: true, "http://y/": true})
		if len(numbers) != 2 || numbers[want[0].url] != 1 || numbers[want[len(want)-1].url] != len(want) || l.count != len(want) {
			t.Errorf("%d pages, numbers %v", l.count, numbers)
		}
		if err := l.close(); err != nil || l.err != nil {
			t.Error(err, l.err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

func TestPageListFullDisk(t *testing.T) {
	l := pageList{dir: t.TempDir() + "/none"}
	for i := range 2 * listBlock {
		l.add(listed{url: fmt.Sprint(i)})
	}
	if l.reverse(); l.err == nil || l.at(0) != (listed{}) {
		t.Error("a failure to write pages was not reported")
	}
}
