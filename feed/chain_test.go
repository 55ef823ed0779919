package feed_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
)

func TestChainHeader(t *testing.T) {
	one, two := strings.Repeat("01", 32), strings.Repeat("ff", 32)
	named := feed.Identity{ID: feed.NewID()}
	second := feed.Identity{ID: named.ID, Epoch: feed.Epoch{Number: 2, ID: feed.NewID(), Last: time.Unix(1701054600, 0).UTC()}}
	kept := second
	kept.Epoch.Kept = true
	for _, c := range []feed.Chain{
		{}, {Self: one}, {Prev: two}, {Self: one, Prev: two}, {Prev: two, First: true},
		{Identity: named}, {Self: one, Identity: second}, {Prev: two, First: true, Identity: kept},
	} {
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
		{`text="\",prev=:Aw==:",self=:Aw==:,prev=:Ag==:,self=:AQ==:`}, // of two members with the same key, the last counts
	} {
		if got, err := feed.ParseChain(http.Header{feed.ChainHeader: values}); err != nil || got != want {
			t.Errorf("%q was read as %+v, %v", values, got, err)
		}
	}
	epoch := feed.Epoch{Number: 3, ID: "0b", Last: time.Unix(7, 0).UTC(), Kept: true}
	for _, value := range []string{"epoch=3;id=:Cw==:;last=@7;kept", "epoch=3 ; kept=?1; later=1;last=@7;id=:Cw==:"} {
		if got, err := feed.ParseChain(http.Header{feed.ChainHeader: {value}}); err != nil || got.Identity.Epoch != epoch {
			t.Errorf("%q was read as %+v, %v", value, got, err)
		}
	}
	for _, value := range []string{
		"self", "self=1", "self=::", "prev=:A:", "prev=:AQ==", `self=":AQ==:"`, "identity=1",
		"epoch", "epoch=1", "epoch=0;id=:Cw==:;last=@7", "epoch=1;id=:Cw==:", "epoch=1;id=:Cw==:;last=7", "epoch=1;id=1;last=@7", "epoch=x;id=:Cw==:;last=@7",
	} {
		var header *feed.HeaderError
		if got, err := feed.ParseChain(http.Header{feed.ChainHeader: {value}}); !errors.As(err, &header) || got != (feed.Chain{}) {
			t.Errorf("%q was read as %+v, %v", value, got, err)
		}
	}
}
