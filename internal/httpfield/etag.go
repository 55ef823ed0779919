package httpfield

import "strings"

// MatchesETag reports whether a list of entity tags, as in If-Match and If-None-Match, contains the
// tag or is "*". A weak comparison ignores "W/"; a strong one never matches a weak tag (RFC 9110,
// section 8.8.3.2).
func MatchesETag(header []string, etag string, weak bool) bool {
	for _, line := range header {
		for {
			line = strings.TrimLeft(line, " \t,")
			if line == "" {
				break
			}
			if line[0] == '*' {
				return true
			}
			isWeak := strings.HasPrefix(line, "W/")
			line = strings.TrimPrefix(line, "W/")
			if line == "" || line[0] != '"' {
				break // malformed
			}
			end := strings.IndexByte(line[1:], '"') + 2
			if end < 2 {
				break
			}
			if line[:end] == etag && (weak || !isWeak) {
				return true
			}
			line = line[end:]
		}
	}
	return false
}
