package units

import "testing"

func TestLimit(t *testing.T) {
	for _, test := range []struct {
		limit         string // "": the default
		rejected, all int64
		end, want     bool
	}{
		{"", 0, 0, true, false},
		{"", 836, 836, true, true},
		{"", 836, 836, false, false},
		{"", 1000, 1000, false, true},
		{"", 999, 1000, true, false},
		{"0", 0, 5, true, false},
		{"0", 1, 5, false, true},
		{"3", 3, 3, true, false},
		{"3", 4, 2000, false, true},
		{"2.5%", 25, 1000, false, false},
		{"2.5%", 26, 1000, false, true},
		{"2.5%", 26, 999, false, false},
		{"100%", 836, 836, true, false},
		{"0%", 1, 836, true, true},
	} {
		var l Limit
		if test.limit != "" {
			if err := l.Set(test.limit); err != nil {
				t.Fatal(err)
			}
		}
		if got := l.Exceeded(test.rejected, test.all, test.end); got != test.want {
			t.Errorf("limit %q, %d of %d rejected, end %t: exceeded: %t", test.limit, test.rejected, test.all, test.end, got)
		}
	}
	for _, wrong := range []string{"", "-1", "x", "101%", "-1%", "%", "NaN%", "1.5"} {
		if err := new(Limit).Set(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
