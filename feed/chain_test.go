package feed_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
)

func TestChainHeader(t *testing.T) {
	one, two := strings.Repeat("01", 32), strings.Repeat("ff", 32)
	for _, c := range []feed.Chain{{}, {Self: one}, {Prev: two}, {Self: one, Prev: two}, {Prev: two, First: true}} {
		h := http.Header{}
		if value := c.Header(); value != "" {
			h.Set(feed.ChainHeader, value)
		}
		if got, err := feed.ParseChain(h); err != nil || got != c {
			t.Errorf("%+v was written as %v and read as %+v, %v", c, h, got, err)
		}
	}
}

func TestParseChain(t *testing.T) {
	want := feed.Chain{Self: "01", Prev: "02"}
	for _, values := range [][]string{
		{"self=:AQ==:, prev=:Ag==:"},
		{"prev=:Ag==:", "self=:AQ==:"},
		{`feed="a, self=:Aw==:";v=1, self=:AQ==:;x, later, prev=:Ag==: ,list=("," prev=:Aw==:)`},
		{`text="\",prev=:Aw==:",self=:Aw==:,prev=:Ag==:,self=:AQ==:`}, // the last of two counts
	} {
		if got, err := feed.ParseChain(http.Header{feed.ChainHeader: values}); err != nil || got != want {
			t.Errorf("%q was read as %+v, %v", values, got, err)
		}
	}
	for _, value := range []string{"self", "self=1", "self=::", "prev=:A:", "prev=:AQ==", `self=":AQ==:"`} {
		var header *feed.HeaderError
		if got, err := feed.ParseChain(http.Header{feed.ChainHeader: {value}}); !errors.As(err, &header) || got != (feed.Chain{}) {
			t.Errorf("%q was read as %+v, %v", value, got, err)
		}
	}
}
