package snapshot_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/snapshot"
)

// specExample is the example of the specification.
const specExample = `{
    "id": "12345678",
    "createdAt": "2023-09-27T20:52:17.000Z",
    "pages": [
      "https://example.datareplication.io/12345678/page/1",
      "https://example.datareplication.io/12345678/page/2",
      "https://example.datareplication.io/12345678/page/3"
    ]
  }`

// full returns an index with all properties.
func full() *snapshot.Index {
	return &snapshot.Index{
		ID:        "341f9312",
		CreatedAt: time.Date(2023, 11, 27, 20, 52, 17, 0, time.UTC),
		Pages:     []string{"https://example.com/p/0", "https://example.com/p/1?a=<b>&c"},
		Feed: &snapshot.FeedPosition{
			URL:          "https://example.com/feeds/zones",
			Page:         "https://example.com/feeds/zones/pages/7",
			LastModified: time.Date(2023, 11, 27, 20, 52, 17, 912e6, time.UTC),
			ContentID:    "<c-4711>",
		},
		Entities: 597,
		Extra:    map[string]json.RawMessage{"a": json.RawMessage(`{"deep":[1,2.50]}`), "zz": json.RawMessage(`"x"`)},
	}
}

// read reads an index whose URLs may be relative, and keeps the URLs.
func read(text []byte) (*snapshot.Index, error) {
	pages := []string{}
	x, err := snapshot.Read(bytes.NewReader(text), func(url string) error {
		pages = append(pages, url)
		return nil
	})
	if err == nil {
		x.Pages = pages
	}
	return x, err
}

func parse(text []byte) (*snapshot.Index, error) { return snapshot.Parse(bytes.NewReader(text)) }

func TestParseExampleOfTheSpecification(t *testing.T) {
	x, err := parse([]byte(specExample))
	if err != nil {
		t.Fatal(err)
	}
	want := &snapshot.Index{
		ID:        "12345678",
		CreatedAt: time.Date(2023, 9, 27, 20, 52, 17, 0, time.UTC),
		Pages: []string{
			"https://example.datareplication.io/12345678/page/1",
			"https://example.datareplication.io/12345678/page/2",
			"https://example.datareplication.io/12345678/page/3",
		},
	}
	if diff := cmp.Diff(want, x); diff != "" {
		t.Error(diff)
	}
}

func TestMarshal(t *testing.T) {
	got, err := json.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"341f9312","createdAt":"2023-11-27T20:52:17.000Z",` +
		`"pages":["https://example.com/p/0","https://example.com/p/1?a=\u003cb\u003e\u0026c"],` +
		`"feed":{"url":"https://example.com/feeds/zones","page":"https://example.com/feeds/zones/pages/7",` +
		`"lastModified":"2023-11-27T20:52:17.912Z","contentId":"\u003cc-4711\u003e"},` +
		`"entities":597,"a":{"deep":[1,2.50]},"zz":"x"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRoundTrip(t *testing.T) {
	for name, x := range map[string]*snapshot.Index{
		"all":      full(),
		"least":    {ID: "x", CreatedAt: time.Unix(0, 0).UTC(), Pages: []string{}},
		"no extra": {ID: "x", CreatedAt: time.Unix(0, 0).UTC(), Pages: []string{"http://a/b"}, Entities: 1},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parse(data)
			if err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			if diff := cmp.Diff(x, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLowerCase: times may have t and z in lower case, as RFC 3339 allows.
func TestLowerCase(t *testing.T) {
	want := time.Date(2023, 9, 27, 20, 52, 17, 0, time.UTC)
	got, err := read([]byte(`{"id":"x","createdAt":"2023-09-27t20:52:17.5z","pages":[]}`))
	if err != nil || !got.CreatedAt.Equal(want) {
		t.Errorf("read as %+v, %v; want createdAt %v", got, err, want)
	}
}

// TestRounding: createdAt is rounded down when written and when read, so that no entity of that
// second seems older than the snapshot.
func TestRounding(t *testing.T) {
	x := full()
	x.CreatedAt = time.Date(2023, 11, 27, 21, 52, 17, 999_999_999, time.FixedZone("", 3600))
	x.Feed.LastModified = time.Date(2023, 11, 27, 20, 52, 17, 912_999_999, time.UTC)
	data, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"createdAt":"2023-11-27T20:52:17.000Z"`, `"lastModified":"2023-11-27T20:52:17.912Z"`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s does not contain %s", data, want)
		}
	}
	if x.Feed.LastModified.Nanosecond() != 912_999_999 {
		t.Error("writing changed the index")
	}
	got, err := read([]byte(`{"id":"x","createdAt":"2023-11-27T22:52:17.999+02:00","pages":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2023, 11, 27, 20, 52, 17, 0, time.UTC); got.CreatedAt != want {
		t.Errorf("createdAt read as %v, want %v", got.CreatedAt, want)
	}
}

// TestInvalid reads indexes that the schema rejects.
func TestInvalid(t *testing.T) {
	schema := openSchema(t)
	for name, text := range map[string]string{
		"empty":                    ``,
		"not JSON":                 `id: x`,
		"truncated":                `{"id":"x","createdAt":"2023-09-27T20:52:17Z","pages":[]`,
		"two documents":            `{"id":"x","createdAt":"2023-09-27T20:52:17Z","pages":[]} {}`,
		"an array":                 `["id","createdAt","pages"]`,
		"no id":                    `{"createdAt":"2023-09-27T20:52:17Z","pages":[]}`,
		"no createdAt":             `{"id":"x","pages":[]}`,
		"no pages":                 `{"id":"x","createdAt":"2023-09-27T20:52:17Z"}`,
		"id is a number":           `{"id":1,"createdAt":"2023-09-27T20:52:17Z","pages":[]}`,
		"names in capitals":        `{"ID":"x","CREATEDAT":"2023-09-27T20:52:17Z","PAGES":[]}`,
		"createdAt not a time":     `{"id":"x","createdAt":"yesterday","pages":[]}`,
		"createdAt without a zone": `{"id":"x","createdAt":"2023-09-27T20:52:17","pages":[]}`,
		"createdAt not a date":     `{"id":"x","createdAt":"2023-02-30T20:52:17Z","pages":[]}`,
		"createdAt seconds":        `{"id":"x","createdAt":1695841775,"pages":[]}`,
		"createdAt year -1":        `{"id":"x","createdAt":"0000-01-01T00:00:00+00:01","pages":[]}`,
		"pages not an array":       `{"id":"x","createdAt":"2023-09-27T20:52:17Z","pages":"https://a/b"}`,
		"pages null":               `{"id":"x","createdAt":"2023-09-27T20:52:17Z","pages":null}`,
		"page not a string":        `{"id":"x","createdAt":"2023-09-27T20:52:17Z","pages":["https://a/b",7]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if x, err := read([]byte(text)); !errors.Is(err, snapshot.ErrInvalid) {
				t.Errorf("%+v, error %v; want ErrInvalid", x, err)
			}
			if isValid(schema, []byte(text)) && name != "createdAt year -1" {
				t.Error("it is valid according to the schema")
			}
		})
	}
}

func TestParseRequiresAbsoluteURLs(t *testing.T) {
	for name, text := range map[string]string{
		"path":          `{"id":"x","createdAt":"2023-09-27T20:52:17Z","pages":["https://a/b","/c"]}`,
		"no scheme":     `{"id":"x","createdAt":"2023-09-27T20:52:17Z","pages":["//a/b"]}`,
		"no host":       `{"id":"x","createdAt":"2023-09-27T20:52:17Z","pages":["https:///b"]}`,
		"other scheme":  `{"id":"x","createdAt":"2023-09-27T20:52:17Z","pages":["file:///etc/passwd"]}`,
		"not a URL":     `{"id":"x","createdAt":"2023-09-27T20:52:17Z","pages":["https://a b/"]}`,
		"empty":         `{"id":"x","createdAt":"2023-09-27T20:52:17Z","pages":[""]}`,
		"feed relative": `{"id":"x","createdAt":"2023-09-27T20:52:17Z","pages":[],"feed":{"url":"/f","lastModified":"2023-09-27T20:52:17Z"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if x, err := parse([]byte(text)); !errors.Is(err, snapshot.ErrInvalid) {
				t.Errorf("%+v, error %v; want ErrInvalid", x, err)
			}
			if _, err := read([]byte(text)); err != nil {
				t.Errorf("Read: %v", err)
			}
		})
	}
}

// TestForeignProperties: additional properties are kept unchanged, including those that have the
// names of feedctl's own properties, but not their form.
func TestForeignProperties(t *testing.T) {
	for name, properties := range map[string]string{
		"feed a string":           `"feed":"https://example.com/feeds/zones"`,
		"feed without URL":        `"feed":{"lastModified":"2023-09-27T20:52:17Z"}`,
		"lastModified not a time": `"feed":{"lastModified":"x","url":"https://a/b"}`,
		"lastModified in year -1": `"feed":{"lastModified":"0000-01-01T00:00:00+00:01","url":"https://a/b"}`,
		"entities an array":       `"entities":[1]`,
		"entities half":           `"entities":0.5`,
		"entities negative":       `"entities":-1`,
		"others":                  `"x":null,"y":{"z":1e400}`,
	} {
		t.Run(name, func(t *testing.T) {
			text := `{"id":"x","createdAt":"2023-09-27T20:52:17.000Z","pages":[],` + properties + `}`
			x, err := parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if x.Feed != nil || x.Entities != 0 {
				t.Errorf("read as feedctl's own: %+v", x)
			}
			if got, err := json.Marshal(x); err != nil || string(got) != text {
				t.Errorf("%s is written as %s, %v", text, got, err)
			}
		})
	}
}

func TestMarshalRefusesYearsWithoutFourDigits(t *testing.T) {
	x := full()
	x.CreatedAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	if data, err := json.Marshal(x); !errors.Is(err, snapshot.ErrInvalid) {
		t.Errorf("%s, error %v; want ErrInvalid", data, err)
	}
}

func TestOwnPropertiesWin(t *testing.T) {
	x := full()
	x.Extra = map[string]json.RawMessage{"id": json.RawMessage(`1`), "feed": json.RawMessage(`2`), "entities": json.RawMessage(`3`)}
	data, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	x.Extra = nil
	if diff := cmp.Diff(x, got); diff != "" {
		t.Error(diff)
	}
}

func TestResolve(t *testing.T) {
	base, err := url.Parse("https://example.com/snapshots/zones")
	if err != nil {
		t.Fatal(err)
	}
	x := full()
	x.Feed.URL, x.Feed.Page = "/feeds/zones", "/feeds/zones/pages/7"
	if err := x.Feed.Resolve(base); err != nil {
		t.Fatal(err)
	}
	if x.Feed.URL != "https://example.com/feeds/zones" || x.Feed.Page != "https://example.com/feeds/zones/pages/7" {
		t.Errorf("feed %+v", x.Feed)
	}
	for _, p := range []snapshot.FeedPosition{{URL: "%zz"}, {URL: "mailto:a@example.com"}, {URL: "/feeds/zones", Page: "ftp://a/b"}} {
		if err := p.Resolve(base); !errors.Is(err, snapshot.ErrInvalid) {
			t.Errorf("%+v: error %v, want ErrInvalid", p, err)
		}
	}
}

// TestReadStops: the error of the function for pages is returned unchanged.
func TestReadStops(t *testing.T) {
	stop := errors.New("stop")
	if _, err := snapshot.Read(strings.NewReader(specExample), func(string) error { return stop }); err != stop {
		t.Errorf("got %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(specExample))
	for _, seed := range []string{
		`{"id":"x","createdAt":"2023-09-27T20:52:17.123456789+23:59","pages":["/a"],"feed":{"url":"u","lastModified":"2023-09-27T20:52:17Z"}}`,
		`{"id":"x","createdAt":"0000-01-01T00:00:00Z","pages":[""],"entities":9223372036854775808,"":0}`,
		`{"id":"x","createdAt":"2023-09-27T23:59:60Z","pages":[]}`,
	} {
		f.Add([]byte(seed))
	}
	schema := openSchema(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := read(data)
		if err != nil {
			if !errors.Is(err, snapshot.ErrInvalid) {
				t.Fatalf("error %v is not ErrInvalid", err)
			}
			return
		}
		if !isValid(schema, data) {
			t.Fatalf("%q is invalid according to the schema, but was read", data)
		}
		text, err := json.Marshal(x)
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		again, err := read(text)
		if err != nil {
			t.Fatalf("%q: written as %s: %v", data, text, err)
		}
		if diff := cmp.Diff(x, again, rawMessages); diff != "" {
			t.Fatalf("%q: written as %s:\n%s", data, text, diff)
		}
	})
}

// rawMessages compares JSON without regard to white space and escapes.
var rawMessages = cmp.Transformer("JSON", func(m json.RawMessage) string {
	text, err := json.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(text)
})

func BenchmarkRead(b *testing.B) {
	x := full()
	for range 1000 {
		x.Pages = append(x.Pages, "https://example.com/snapshots/zones/20231127T205217Z-1/pages/123456")
	}
	data, err := json.Marshal(x)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := read(data); err != nil {
			b.Fatal(err)
		}
	}
}
