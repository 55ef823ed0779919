package server

import (
	"strings"
	"time"
)

// preferredWait returns the time of "Prefer: wait=N" (RFC 7240, section 4.3), at most longest, or 0 if it is
// missing or malformed. If there are several, the first one is used.
func preferredWait(header []string, longest time.Duration) time.Duration {
	for _, line := range header {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			value = strings.Trim(strings.TrimSpace(value), `"`)
			return min(seconds(value), longest).Truncate(time.Second)
		}
	}
	return 0
}

// maxSeconds is the largest number of delta-seconds; greater numbers are read as this one.
const maxSeconds = 1 << 31

// seconds parses delta-seconds (RFC 9111, section 1.2.2): digits only. It returns 0
// for anything else.
func seconds(s string) time.Duration {
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0
		}
		n = min(n*10+int(c-'0'), maxSeconds)
	}
	return time.Duration(n) * time.Second
}
