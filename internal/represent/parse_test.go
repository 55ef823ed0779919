package represent

import (
	"strconv"
	"strings"
	"testing"
)

func TestPrefersHTML(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "text/html": true,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true,
		"text/html;q=0.5, application/json":                               false,
		"text/html;q=0":                                                   false,
		"text/html;level=1;q=0.7, application/json;q=0.6":                 true,
	} {
		if got := PrefersHTML([]string{accept}); got != want {
			t.Errorf("PrefersHTML(%q) = %v", accept, got)
		}
	}
}

func FuzzAcceptedCoding(f *testing.F) {
	f.Add("gzip;q=0.5, zstd;q=0.25, *;q=0")
	f.Add("identity;q=0,,;q=")
	f.Fuzz(func(t *testing.T, header string) {
		coding, ok := acceptedCoding([]string{header})
		weights := qualities([]string{header})
		for name, weight := range weights {
			if weight < 0 || weight > 1000 || name == "" || strings.ContainsAny(name, ",;") {
				t.Fatalf("qualities(%q) has %q: %d", header, name, weight)
			}
		}
		if coding != "" {
			weight, named := weights[coding]
			if !named {
				weight = weights["*"]
			}
			if !ok || weight == 0 || coding != codingGzip && coding != codingZstd {
				t.Fatalf("acceptedCoding(%q) = %q, %v, which the client does not take", header, coding, ok)
			}
		}
		if !ok && !identityRefused([]string{header}) {
			t.Fatalf("acceptedCoding(%q) finds nothing, but identity is not refused", header)
		}
	})
}

func FuzzRange(f *testing.F) {
	f.Add("bytes=0-499", int64(1000))
	f.Add("bytes=-5", int64(3))
	f.Add("bytes=1-0,2", int64(0))
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		part, ok := parseRange(header, size)
		if part.offset < 0 || part.length < 0 || part.offset+part.length > size || part.partial && part.length == 0 {
			t.Fatalf("parseRange(%q, %d) = %+v", header, size, part)
		}
		if !part.partial && (part.offset != 0 || part.length != size) {
			t.Fatalf("parseRange(%q, %d) = %+v, which is neither a part nor the whole", header, size, part)
		}
		if !ok && part.partial {
			t.Fatalf("parseRange(%q, %d) = %+v and not ok", header, size, part)
		}
		// The range in Content-Range parses as the same range.
		if part.partial {
			again := "bytes=" + strconv.FormatInt(part.offset, 10) + "-" + strconv.FormatInt(part.offset+part.length-1, 10)
			if same, ok := parseRange(again, size); !ok || same != part {
				t.Fatalf("parseRange(%q, %d) = %+v, but for %q it is %+v", header, size, part, again, same)
			}
		}
	})
}
