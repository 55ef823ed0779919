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

// TestMerge applies the patches of RFC 7396, appendix A, and more for the order of
// members, the spelling of numbers and strings, nulls in arrays, and repeated names.
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
			t.Errorf("%s patched with %s is %s (%v), want %s", c[0], c[1], got, err, c[2])
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

// TestOperations applies the patches of RFC 6902, appendix A, and more for cases in which
// implementations differ: the whole document as target and source, empty names, null,
// indexes, numbers.
func TestOperations(t *testing.T) {
	for _, c := range []struct {
		document, patch string
		want            string // "" if the patch cannot be applied
	}{
		{`{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux"}]`, `{"foo":"bar","baz":"qux"}`},
		{`{"foo":["bar","baz"]}`, `[{"op":"add","path":"/foo/1","value":"qux"}]`, `{"foo":["bar","qux","baz"]}`},
		{`{"baz":"qux","foo":"bar"}`, `[{"op":"remove","path":"/baz"}]`, `{"foo":"bar"}`},
		{`{"foo":["bar","qux","baz"]}`, `[{"op":"remove","path":"/foo/1"}]`, `{"foo":["bar","baz"]}`},
		{`{"baz":"qux","foo":"bar"}`, `[{"op":"replace","path":"/baz","value":"boo"}]`, `{"baz":"boo","foo":"bar"}`},
		{`{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}`, `[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]`, `{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}`},
		{`{"foo":["all","grass","cows","eat"]}`, `[{"op":"move","from":"/foo/1","path":"/foo/3"}]`, `{"foo":["all","cows","eat","grass"]}`},
		{`{"baz":"qux","foo":["a",2,"c"]}`, `[{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]`, `{"baz":"qux","foo":["a",2,"c"]}`},
		{`{"baz":"qux"}`, `[{"op":"test","path":"/baz","value":"bar"}]`, ``},
		{`{"foo":"bar"}`, `[{"op":"add","path":"/child","value":{"grandchild":{}}}]`, `{"foo":"bar","child":{"grandchild":{}}}`},
		{`{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux","xyz":123}]`, `{"foo":"bar","baz":"qux"}`},
		{`{"foo":"bar"}`, `[{"op":"add","path":"/baz/bat","value":"qux"}]`, ``},
		{`{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":10}]`, `{"/":9,"~1":10}`},
		{`{"/":9,"~1":10}`, `[{"op":"test","path":"/~01","value":"10"}]`, ``},
		{`{"foo":["bar"]}`, `[{"op":"add","path":"/foo/-","value":["abc","def"]}]`, `{"foo":["bar",["abc","def"]]}`},

		{`{"a":1}`, `[{"op":"add","path":"","value":[2]}]`, `[2]`},
		{`{"a":1}`, `[{"op":"replace","path":"","value":null}]`, `null`},
		{`{"a":1}`, `[{"op":"test","path":"","value":{"a":1.0}}]`, `{"a":1}`},
		{`{"a":1}`, `[{"op":"test","path":"","value":null}]`, ``},
		{`{"a":1}`, `[{"op":"remove","path":""}]`, ``},
		{`{"a":1}`, `[{"op":"copy","from":"","path":"/b"}]`, `{"a":1,"b":{"a":1}}`},
		{`{"a":[1]}`, `[{"op":"copy","from":"/a","path":""}]`, `[1]`},
		{`{"a":[1]}`, `[{"op":"move","from":"/a","path":""}]`, `[1]`},
		{`{"a":1}`, `[{"op":"move","from":"","path":"/b"}]`, ``},
		{`{"a":1}`, `[{"op":"move","from":"","path":""}]`, `{"a":1}`},
		{`{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a/c"}]`, ``},
		{`{"a":1,"ab":2}`, `[{"op":"move","from":"/a","path":"/ab"}]`, `{"ab":1}`},
		{`{"a":1}`, `[{"op":"move","from":"/b","path":"/b"}]`, ``},
		{`{"":1}`, `[{"op":"replace","path":"/","value":2},{"op":"add","path":"/a","value":{}},{"op":"add","path":"/a/","value":3}]`, `{"":2,"a":{"":3}}`},
		{`{"":{"":1}}`, `[{"op":"remove","path":"//"}]`, `{"":{}}`},
		{`{"a":null}`, `[{"op":"test","path":"/a","value":null}]`, `{"a":null}`},
		{`{}`, `[{"op":"test","path":"/a","value":null}]`, ``},
		{`{}`, `[{"op":"replace","path":"/a","value":null}]`, ``},
		{`[1,2]`, `[{"op":"remove","path":"/+0"}]`, ``},
		{`[1,2]`, `[{"op":"remove","path":"/01"}]`, ``},
		{`[1,2]`, `[{"op":"remove","path":"/00"}]`, ``},
		{`[1,2]`, `[{"op":"remove","path":"/-"}]`, ``},
		{`[1,2]`, `[{"op":"remove","path":"/2"}]`, ``},
		{`[1,2]`, `[{"op":"add","path":"/2","value":3}]`, `[1,2,3]`},
		{`[1,2]`, `[{"op":"add","path":"/3","value":3}]`, ``},
		{`[1,2]`, `[{"op":"add","path":"/1e0","value":3}]`, ``},
		{`[[]]`, `[{"op":"add","path":"/0/0","value":{"x":[]}},{"op":"copy","from":"/0/0","path":"/0/-"},{"op":"add","path":"/0/0/x/-","value":1}]`, `[[{"x":[1]},{"x":[]}]]`},
		{`1`, `[{"op":"add","path":"/a","value":3}]`, ``},
		{`{"a":1e2,"b":-0,"c":"\u0041","d":1.50e-3}`, `[{"op":"test","path":"","value":{"d":0.0015,"c":"A","b":0,"a":100.0}}]`, `{"a":1e2,"b":-0,"c":"\u0041","d":1.50e-3}`},
		{`[12345678901234567890]`, `[{"op":"test","path":"/0","value":12345678901234567891}]`, ``},
		{`[1e999999999999999999999]`, `[{"op":"test","path":"/0","value":1E+999999999999999999999}]`, ``},
		{`[1e999999999999999999999]`, `[{"op":"test","path":"/0","value":1e999999999999999999999}]`, `[1e999999999999999999999]`},
		{`[1,[2]]`, `[{"op":"test","path":"/1","value":[2,3]}]`, ``},
		{`{"a":1,"b":2,"c":3}`, `[{"op":"remove","path":"/b"},{"op":"add","path":"/b","value":{"<":"é"}},{"op":"add","path":"/a","value":0}]`, `{"a":0,"c":3,"b":{"<":"é"}}`},
	} {
		got, err := patch.Apply([]byte(c.document), patch.JSON, []byte(c.patch))
		if c.want == "" && !errors.Is(err, patch.ErrNoFit) || c.want != "" && (err != nil || string(got) != c.want) {
			t.Errorf("%s patched with %s is %s (%v), want %s", c.document, c.patch, got, err, c.want)
		}
	}
}

// TestDoubling copies the whole document into itself until it is too large, which must not
// take more memory than the limit.
func TestDoubling(t *testing.T) {
	operations := "[" + strings.Repeat(`{"op":"copy","from":"","path":"/-"},`, 40)
	operations = strings.TrimSuffix(operations, ",") + "]"
	allocated := testing.AllocsPerRun(1, func() {
		if _, err := patch.Apply([]byte(`["text"]`), patch.JSON, []byte(operations)); !errors.Is(err, patch.ErrTooLarge) {
			t.Errorf("a document that doubles 40 times: %v", err)
		}
	})
	if allocated > 1e5 {
		t.Errorf("%v allocations", allocated)
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
		{`{}`, patch.JSON, `[{"op":"add","path":"a","value":1}]`, patch.ErrInvalid},
		{`{}`, patch.JSON, `[{"op":"add","path":"/~2","value":1}]`, patch.ErrInvalid},
		{`{}`, patch.JSON, `[{"op":"add","path":null,"value":1}]`, patch.ErrInvalid},
		{`{}`, patch.JSON, `[{"op":"add","path":"/a"}]`, patch.ErrInvalid},
		{`{}`, patch.JSON, `[{"op":"move","path":"/a"}]`, patch.ErrInvalid},
		{`{}`, patch.JSON, `[{"OP":"add","path":"/a","value":1}]`, patch.ErrInvalid},
		{`{"a":1}`, patch.JSON, `[{"op":"remove","path":"/b"}]`, patch.ErrNoFit},
		{`{"a":1}`, patch.JSON, `[{"op":"test","path":"/a","value":2}]`, patch.ErrNoFit},
		{`[1,2]`, patch.JSON, `[{"op":"remove","path":"/-1"}]`, patch.ErrNoFit},
		{`{}`, patch.JSON, double, patch.ErrTooLarge},
	} {
		if got, err := patch.Apply([]byte(c.document), c.contentType, []byte(c.patch)); !errors.Is(err, c.want) {
			t.Errorf("%.80s patched with %s %.80s is %.80s (%v), want %v", c.document, c.contentType, c.patch, got, err, c.want)
		}
	}
	var err error = &patch.Error{Key: "k", ContentID: "<1>", Err: patch.ErrMissing}
	if !errors.Is(err, patch.ErrMissing) || !strings.Contains(err.Error(), `"<1>"`) {
		t.Error(err)
	}
}

// FuzzMerge compares results with those of the pseudocode in RFC 7396, on decoded values.
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
			t.Fatalf("%s patched with %s is %s", document, change, got)
		}
	})
}

// FuzzJSON checks for panics.
func FuzzJSON(f *testing.F) {
	for _, op := range []string{"add", "remove", "replace", "move", "copy", "test"} {
		f.Add([]byte(`{"a":[1,{"b":null}],"c":null}`), fmt.Appendf(nil, `[{"op":%q,"path":"/a/0","from":"/c","value":null}]`, op))
		f.Add([]byte(`[[],null]`), fmt.Appendf(nil, `[{"op":%q,"path":"","from":"/1"}]`, op))
		f.Add([]byte(`null`), fmt.Appendf(nil, `[{"op":%q,"path":"/a","from":"","value":{}}]`, op))
	}
	f.Fuzz(func(t *testing.T, document, change []byte) {
		got, err := patch.Apply(document, patch.JSON, change)
		if err == nil && !json.Valid(got) {
			t.Fatalf("%s patched with %s is %q", document, change, got)
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
