package page_test

import (
	"math/rand/v2"
	"testing"

	"github.com/feedctl/feedctl/page"
)

// words holds fragments of pages that a reader must distinguish.
var words = []string{
	"--B", "--B", "--B\r\n", "--B\n", "--B--", "--B--\r\n", "--Bx", "--", "-", "B", " ", "\t",
	"\r\n", "\r\n", "\n", "\r", "\r\n\r\n", "\n\n", "\x00", "x", "body",
	":", "A: b\r\n", "C:\n", "d e: f\r\n", "d-e: f\r\n", "Content-Length: 1\r\n\r\nx", "--B: g\r\n",
	"Content-Length: ", "content-length:0\r\n", "Content-Length: 3\r\n", "Content-Length: 7\r\n\r\n",
	"Content-Length: 99999999999999999999\r\n", "Content-Length: -1\n",
	"\r\n--B\r\n\r\n", "\r\n--B\r\nContent-Length: 4\r\n\r\nbody\r\n--B",
}

// TestRandomPages compares the reader with the model on pages composed of
// random words.
func TestRandomPages(t *testing.T) {
	pages := 20_000
	if testing.Short() {
		pages = 4_000
	}
	for seed := range pages {
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		boundary := "B"
		data := []byte("--B\r\n")
		if rnd.IntN(4) == 0 {
			data = nil
		}
		for range rnd.IntN(30) {
			data = append(data, words[rnd.IntN(len(words))]...)
		}
		if rnd.IntN(4) == 0 {
			boundary = "B:"
		}
		compareWithModel(t, data, boundary, page.ReaderOptions{
			MaxHeader: []int{0, 0, 0, 1, 20, 40}[rnd.IntN(6)],
			MaxPart:   []int64{0, 0, 0, 1, 3, 10}[rnd.IntN(6)],
			MaxWhole:  []int{0, 0, 1, 2, 4, 10}[rnd.IntN(6)],
			Strict:    rnd.IntN(2) == 0,
		}, rnd)
	}
}
