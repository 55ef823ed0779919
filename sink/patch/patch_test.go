package patch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/sink/patch"
)

// The table of RFC 7396, appendix A, and what it leaves out: order, spelling of
// numbers and strings, nulls in arrays, names twice.
func TestMerge(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{ "z" : 1.50, "a" : 12345678901234567890 }`, `{"q":1,"w":2,"e":3,"h":"<&>é\u00e9"}`, `{"z":1.50,"a":12345678901234567890,"q":1,"w":2,"e":3,"h":"<&>é\u00e9"}`},
		{`{"a":1}`, `{"a":[{"b":null},null],"n":1e400}`, `{"a":[{"b":null},null],"n":1e400}`},
		{`{"a\u0062":1}`, `{"ab":2}`, `{"a\u0062":2}`},
		{`{"a":1,"b":2,"a":3}`, `{"c":4,"c":5}`, `{"a":3,"b":2,"c":5}`},
		{`{"a":1}`, `{"a":null,"a":2}`, `{"a":2}`},
		{`{"a":1,"b":2}`, `{}`, `{"a":1,"b":2}`},
	} {
		got, err := patch.Apply([]byte(c[0]), "Application/Merge-Patch+JSON; charset=utf-8", []byte(c[1]))
		if err != nil || string(got) != c[2] {
			t.Errorf("%s with %s is %s (%v), want %s", c[0], c[1], got, err, c[2])
		}
	}
}

func TestJSONPatch(t *testing.T) {
	document := `{"id":12345678901234567890,"text":"<&>","list":[1,2]}`
	operations := `[{"op":"test","path":"/list/0","value":1},{"op":"add","path":"/list/-","value":3.10},
		{"op":"remove","path":"/list/0"},{"op":"copy","from":"/text","path":"/copy"},{"op":"move","from":"/id","path":"/number"}]`
	got, err := patch.Apply([]byte(document), patch.JSON, []byte(operations))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"text":"<&>","list":[2,3.10],"copy":"<&>","number":12345678901234567890}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestErrors(t *testing.T) {
	large := `"` + strings.Repeat("x", patch.MaxSize) + `"`
	double := `[{"op":"add","path":"/b","value":"` + strings.Repeat("x", patch.MaxSize/2) + `"},{"op":"copy","from":"/b","path":"/c"},{"op":"copy","from":"/b","path":"/d"}]`
	for _, c := range []struct {
		document, contentType, patch string
		want                         error
	}{
		{`{}`, "application/json", `{}`, patch.ErrContentType},
		{`{}`, "", `{}`, patch.ErrContentType},
		{large, patch.Merge, `{}`, patch.ErrTooLarge},
		{`{}`, patch.Merge, large, patch.ErrTooLarge},
		{`{}`, patch.Merge, `{`, patch.ErrInvalid},
		{`{}`, patch.Merge, ``, patch.ErrInvalid},
		{``, patch.Merge, `{}`, patch.ErrNoFit},
		{`x`, patch.Merge, `{}`, patch.ErrNoFit},
		{`{}`, patch.JSON, `{}`, patch.ErrInvalid},
		{`{}`, patch.JSON, `null`, patch.ErrInvalid},
		{`{}`, patch.JSON, `[null]`, patch.ErrInvalid},
		{`{}`, patch.JSON, `[{"op":"turn","path":"/a"}]`, patch.ErrInvalid},
		{`{"a":1}`, patch.JSON, `[{"op":"remove","path":"/b"}]`, patch.ErrNoFit},
		{`{"a":1}`, patch.JSON, `[{"op":"test","path":"/a","value":2}]`, patch.ErrNoFit},
		{`[1,2]`, patch.JSON, `[{"op":"remove","path":"/-1"}]`, patch.ErrNoFit},
		{`{}`, patch.JSON, double, patch.ErrNoFit},
	} {
		if got, err := patch.Apply([]byte(c.document), c.contentType, []byte(c.patch)); !errors.Is(err, c.want) {
			t.Errorf("%.80s with %s %.80s is %.80s (%v), want %v", c.document, c.contentType, c.patch, got, err, c.want)
		}
	}
	var err error = &patch.Error{Key: "k", ContentID: "<1>", Err: patch.ErrMissing}
	if !errors.Is(err, patch.ErrMissing) || !strings.Contains(err.Error(), `"<1>"`) {
		t.Error(err)
	}
}

// FuzzMerge compares with the pseudocode of RFC 7396 over decoded values.
func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,null]}}`), []byte(`{"a":{"b":null,"c":{"d":null}}}`))
	f.Add([]byte(`[1]`), []byte(`{"a":1}`))
	f.Add([]byte(`{"":1}`), []byte(`5`))
	f.Fuzz(func(t *testing.T, document, change []byte) {
		got, err := patch.Apply(document, patch.Merge, change)
		if err != nil {
			return
		}
		if want := merge(decode(t, document), decode(t, change)); !cmp.Equal(want, decode(t, got)) {
			t.Fatalf("%s with %s is %s", document, change, got)
		}
	})
}

// FuzzJSON looks for panics.
func FuzzJSON(f *testing.F) {
	for _, op := range []string{"add", "remove", "replace", "move", "copy", "test"} {
		f.Add([]byte(`{"a":[1,{"b":null}],"c":null}`), fmt.Appendf(nil, `[{"op":%q,"path":"/a/0","from":"/c","value":null}]`, op))
		f.Add([]byte(`[[],null]`), fmt.Appendf(nil, `[{"op":%q,"path":"","from":"/1"}]`, op))
		f.Add([]byte(`null`), fmt.Appendf(nil, `[{"op":%q,"path":"/a","from":"","value":{}}]`, op))
	}
	f.Fuzz(func(t *testing.T, document, change []byte) {
		got, err := patch.Apply(document, patch.JSON, change)
		if err == nil && !json.Valid(got) {
			t.Fatalf("%s with %s is %q", document, change, got)
		}
	})
}

func decode(t *testing.T, text []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func merge(target, change any) any {
	changes, ok := change.(map[string]any)
	if !ok {
		return change
	}
	object, ok := target.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(object, name)
		} else {
			object[name] = merge(object[name], value)
		}
	}
	return object
}
