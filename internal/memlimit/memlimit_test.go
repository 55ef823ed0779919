package memlimit

import "testing"

func TestWanted(t *testing.T) {
	const least = 32 << 20
	for _, tt := range []struct{ live, scanned, other, want int64 }{
		{0, 0, 0, least},
		{16 << 20, 16 << 20, 6 << 20, least},
		{20 << 20, 20 << 20, 6 << 20, 36 << 20},
		{32 << 20, 0, 6 << 20, 42 << 20}, // bodies
		{40 << 20, 8 << 20, 4 << 20, 49 << 20},
		{1 << 30, 1 << 30, 0, (1 << 30) * 3 / 2},
		{8 << 20, 8 << 20, 100 << 20, 112 << 20}, // with the stacks of many goroutines
	} {
		got := wanted(least, tt.live, tt.scanned, tt.other)
		if got != tt.want {
			t.Errorf("%d bytes in use, %d of them scanned, and %d of other memory: limit %d, want %d", tt.live, tt.scanned, tt.other, got, tt.want)
		}
		if room := got - tt.live - tt.other; room < tt.scanned/2 {
			t.Errorf("%d bytes in use, %d of them scanned, and %d of other memory: room for %d", tt.live, tt.scanned, tt.other, room)
		}
	}
}
