package page_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/feedctl/feedctl/page"
)

// TestSimilarHeaders reads parts whose headers each differ little from the header of the part
// before, in any place and in any way, and compares the results with those of the model.
func TestSimilarHeaders(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		lines := []string{"A: 1\r\n", "Content-Type: text/plain\r\n", "content-id:<0000000000000001@b>\r\n", "Empty:\r\n", "X: 1\n", "Y:\t\xff \r\n", "Content-Length: 4\r\n"}
		var data []byte
		for range 2 + rnd.IntN(4) {
			data = append(data, "--B\r\n"...)
			for _, line := range lines {
				data = append(data, line...)
			}
			data = append(data, "\r\nbody\r\n"...)
			for range rnd.IntN(3) {
				lines = changeLine(rnd, lines)
			}
		}
		data = append(data, "--B--\r\n"...)
		o := page.ReaderOptions{Strict: rnd.IntN(2) == 0, MaxWhole: []int{0, 1, 4}[rnd.IntN(3)], MaxHeader: []int{0, 0, 100}[rnd.IntN(3)]}
		compareWithModel(t, data, "B", o, rnd)
	}
}

// changeLine returns a copy of lines with one change.
func changeLine(rnd *rand.Rand, lines []string) []string {
	lines = append([]string(nil), lines...)
	if len(lines) == 0 {
		return append(lines, "New: 1\r\n")
	}
	i := rnd.IntN(len(lines))
	line := []byte(lines[i])
	at := rnd.IntN(len(line))
	switch rnd.IntN(9) {
	case 0:
		line[at] = "1aZ: \t\r\n\x00\x01\xff-"[rnd.IntN(12)]
	case 1:
		line = append(line[:at], line[at+1:]...)
	case 2:
		line = append(line[:at:at], append([]byte{"1: \t\r\n\x00"[rnd.IntN(7)]}, line[at:]...)...)
	case 3:
		line = bytes.ReplaceAll(line, []byte("\r\n"), []byte("\n"))
	case 4:
		line = fmt.Appendf(nil, "New-%d: %d\r\n%s", rnd.IntN(3), rnd.IntN(3), line)
	case 5:
		line = nil
	case 6:
		line = append(line, " folded\r\n"...)
	case 7:
		line = bytes.ToUpper(line)
	case 8:
		line = append(line, line...)
	}
	lines[i] = string(line)
	if len(line) == 0 {
		lines = append(lines[:i], lines[i+1:]...)
	}
	return lines
}
