package memlimit

import "testing"

func TestWanted(t *testing.T) {
	const least = 32 << 20
	for _, tt := range []struct{ live, other, want int64 }{
		{0, 0, least},
		{16 << 20, 6 << 20, least},
		{20 << 20, 6 << 20, 36 << 20},
		{40 << 20, 4 << 20, 64 << 20},
		{1 << 30, 0, (1 << 30) * 3 / 2},
		{4 << 20, 100 << 20, 106 << 20}, // the stacks of many goroutines
	} {
		got := wanted(least, tt.live, tt.other)
		if got != tt.want {
			t.Errorf("%d bytes in use and %d of other memory: limit %d, want %d", tt.live, tt.other, got, tt.want)
		}
		if room := got - tt.live - tt.other; room < tt.live/2 {
			t.Errorf("%d bytes in use and %d of other memory: room for %d", tt.live, tt.other, room)
		}
	}
}
