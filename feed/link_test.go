package feed_test

import (
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
)

func base(t testing.TB) *url.URL {
	t.Helper()
	u, err := url.Parse("https://example.com/feeds/zones/pages/2?v=1")
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestParseLinks(t *testing.T) {
	const p = "https://example.com/feeds/zones/pages/"
	all := feed.Links{Self: p + "2", Prev: p + "1", Next: p + "3"}
	for name, c := range map[string]struct {
		headers []string
		want    feed.Links
	}{
		"none":          {nil, feed.Links{}},
		"empty":         {[]string{"", ","}, feed.Links{}},
		"three headers": {[]string{"<" + p + `2>; rel="self"`, "<" + p + `1>; rel="prev"`, "<" + p + `3>; rel="next"`}, all},
		"one header":    {[]string{"<" + p + `2>; rel="self", <` + p + `1>; rel="prev",<` + p + `3>;rel=next`}, all},
		"bare rel":      {[]string{"<" + p + "2>;rel=self", "<" + p + "1>; rel=prev", "<" + p + "3>; rel=next"}, all},
		"relative":      {[]string{"<2>; rel=self", "</feeds/zones/pages/1>; rel=prev", "<//example.com/feeds/zones/pages/3>; rel=next"}, all},
		"dots":          {[]string{"<../pages/1>; rel=prev"}, feed.Links{Prev: p + "1"}},
		"several rels":  {[]string{`<2>; rel="self latest-version"`, `<1>; rel="start prev"`, `<3>; rel="next  up"`}, all},
		"one page":      {[]string{`<2>; rel="self prev next"`}, feed.Links{Self: p + "2", Prev: p + "2", Next: p + "2"}},
		"case":          {[]string{`<2>; REL="Self"`, `<1>; Rel=PREV`, `<3>; rel="NEXT"`}, all},
		"other rels":    {[]string{`<2>; rel="self"`, `<style.css>; rel=stylesheet`, `<:bad:>; rel="prefetch"`}, feed.Links{Self: p + "2"}},
		"extensions": {[]string{`<1>; rel="first prev"`, `</feeds/zones>; rel=LAST`, `<../at>; rel="timegate"`},
			feed.Links{Prev: p + "1", First: p + "1", Last: "https://example.com/feeds/zones", Timegate: "https://example.com/feeds/zones/at"}},
		"malformed":    {[]string{`<mailto:a@b>; rel="first"`, `<%zz>; rel="timegate"`, `<2>; rel="self last"`, `<3>; rel="last"`}, feed.Links{Self: p + "2", Last: p + "2"}},
		"no rel":       {[]string{`<2>`, `<3>; title="next"`}, feed.Links{}},
		"other params": {[]string{`<2>; title="a, b; c"; rel="self"; type="multipart/mixed"`}, feed.Links{Self: p + "2"}},
		"separators":   {[]string{`</p,1;v=2>; rel="self", </p,2;v=3>; rel=next`}, feed.Links{Self: "https://example.com/p,1;v=2", Next: "https://example.com/p,2;v=3"}},
		"anchor":       {[]string{`<9>; rel="next"; anchor="#x"`, `<2>; rel=self`}, feed.Links{Self: p + "2"}},
		"twice alike":  {[]string{`<3>; rel="next"`, "<" + p + `3>; rel=next`}, feed.Links{Next: p + "3"}},
		"tabs":         {[]string{"<2>;\trel=self,\t<3>;\trel=next"}, feed.Links{Self: p + "2", Next: p + "3"}},
		"fragment":     {[]string{`<3#top>; rel="next"`}, feed.Links{Next: p + "3"}},
		"query only":   {[]string{`<?v=2>; rel="next"`}, feed.Links{Next: p + "2?v=2"}},

		// The specification's own example has no angle brackets.
		"bare":                   {[]string{p + "2; rel=self", p + "1;rel=prev", p + `3 ; rel="next"`}, all},
		"bare, one header":       {[]string{p + "2;rel=self," + p + "1; rel=prev, <" + p + "3>; rel=next"}, all},
		"bare, commas":           {[]string{"/p,1; rel=self, /p,2; rel=next"}, feed.Links{Self: "https://example.com/p,1", Next: "https://example.com/p,2"}},
		"bare, no parameter":     {[]string{"http://a, <2>; rel=self,http://b,, <3>; rel=next"}, feed.Links{Self: p + "2", Next: p + "3"}},
		"empty target":           {[]string{"<2>; rel=self", "; rel=next"}, feed.Links{Self: p + "2"}},
		"white space around =":   {[]string{`<2>; rel = self`, "<1> ;rel\t=\t\"prev\" ", `<3>; rel= next`}, all},
		"quoted pairs":           {[]string{`<3>; rel="n\ex\t"`}, feed.Links{Next: p + "3"}},
		"escaped quote":          {[]string{`<3>; title="a \", b; rel=\"prev\""; rel="next", <2>; rel=self`}, feed.Links{Self: p + "2", Next: p + "3"}},
		"anchor in capitals":     {[]string{`<9>; rel="next"; ANCHOR="#x"`, `<2>; rel=self`}, feed.Links{Self: p + "2"}},
		"first of two rels":      {[]string{`<3>; rel="next"; rel="prev"`, `<9>; rel=""; rel="next"`}, feed.Links{Next: p + "3"}},
		"parameter without name": {[]string{`<3>; ; =x; rel=next; y`}, feed.Links{Next: p + "3"}},
		"quote without end":      {[]string{`<3>; rel="next`}, feed.Links{Next: p + "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := feed.ParseLinks(base(t), http.Header{"Link": c.headers})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseLinksErrors(t *testing.T) {
	for name, headers := range map[string][]string{
		"no URL":           {`<http://[::1>; rel="next"`},
		"control":          {"<a\x7fb>; rel=prev"},
		"another scheme":   {`<file:///etc/passwd>; rel="next"`},
		"no host":          {`<http:///x>; rel="next"`},
		"two differ":       {`<1>; rel="prev"`, `<2>; rel="prev"`},
		"two in one":       {`<1>; rel="prev", <2>; rel="self prev"`},
		"bracket missing":  {`<3; rel="next"`},
		"bad percent code": {`<%zz>; rel=next`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := feed.ParseLinks(base(t), http.Header{"Link": headers})
			var header *feed.HeaderError
			if !errors.Is(err, feed.ErrInvalidHeader) || !errors.As(err, &header) || header.Name != "Link" {
				t.Errorf("%+v, error %v; want a HeaderError that names Link", got, err)
			}
			if got != (feed.Links{}) {
				t.Errorf("links %+v and an error", got)
			}
		})
	}
	if _, err := feed.ParseLinks(nil, http.Header{"Link": {"<2>; rel=next"}}); err == nil {
		t.Error("a relative link without a base is accepted")
	}
}

func TestLinksHeader(t *testing.T) {
	links := feed.Links{Self: "https://example.com/2", Next: "https://example.com/3", Last: "https://example.com"}
	want := []string{`<https://example.com/2>; rel="self"`, `<https://example.com/3>; rel="next"`, `<https://example.com>; rel="last"`}
	if diff := cmp.Diff(want, links.Header()); diff != "" {
		t.Error(diff)
	}
}

func FuzzParseLinks(f *testing.F) {
	f.Add(`<2>; rel="self", <1>; rel=prev`)
	f.Add(`<a,b;c>; title="x\"y"; rel="next last"`)
	f.Add(`>;,<"`)
	f.Fuzz(func(t *testing.T, value string) {
		links, err := feed.ParseLinks(base(t), http.Header{"Link": {value}})
		if err != nil {
			return
		}
		again, err := feed.ParseLinks(base(t), http.Header{"Link": links.Header()})
		if err != nil || again != links {
			t.Fatalf("%q is parsed as %+v, which is read back as %+v, %v", value, links, again, err)
		}
	})
}
