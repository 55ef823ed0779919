package feed_test

import (
	"errors"
	"testing"

	"github.com/feedctl/feedctl/feed"
)

func TestParseOperation(t *testing.T) {
	for text, want := range map[string]feed.Operation{
		"http-equiv=PUT":    feed.Put,
		"http-equiv=PATCH":  feed.Patch,
		"http-equiv=DELETE": feed.Delete,
		"PUT":               feed.Put,
		"delete":            feed.Delete,
		"HTTP-Equiv=Patch":  feed.Patch,
	} {
		got, err := feed.ParseOperation(text)
		if err != nil || got != want {
			t.Errorf("ParseOperation(%q) = %q, %v; want %q", text, got, err, want)
		}
		if again, err := feed.ParseOperation(got.HeaderValue()); err != nil || again != got {
			t.Errorf("%q is not read back from %q", got, got.HeaderValue())
		}
	}
	for _, text := range []string{"", "http-equiv=", "http-equiv=POST", "PUTS", "http-equiv=http-equiv=PUT", "GET", "PUT DELETE"} {
		if got, err := feed.ParseOperation(text); !errors.Is(err, feed.ErrInvalidHeader) {
			t.Errorf("ParseOperation(%q) = %q, %v; want ErrInvalidHeader", text, got, err)
		}
	}
}
