package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func TestAppendIndent(t *testing.T) {
	for text, want := range map[string]string{
		`{"n":12345678901234567890.10,"a":[1,{"b":null}],"e":{},"f":[]}`: `{
  "n": 12345678901234567890.10,
  "a": [
    1,
    {
      "b": null
    }
  ],
  "e": {},
  "f": []
}`,
		" -0.0e+10\n":                 `-0.0e+10`,
		`"a\u0000\"{[,:]}"`:           `"a\u0000\"{[,:]}"`,
		"[ [ ] , { } ]":               "[\n  [],\n  {}\n]",
		"[\"\xff\"]":                  "[\n  \"\xff\"\n]",
		strings.Repeat("[", MaxDepth): "",
	} {
		got, err := AppendIndent([]byte("> "), []byte(text), 1<<20)
		if want == "" { // the text ends too early
			if longest := len("\n[") + 2*maxIndent; !errors.Is(err, io.ErrUnexpectedEOF) || len(got) > MaxDepth*longest {
				t.Errorf("%.20s... becomes %d bytes, error %v", text, len(got), err)
			}
			continue
		}
		if err != nil || string(got) != "> "+want {
			t.Errorf("%s becomes\n%s\nwith error %v, want\n> %s", text, got, err, want)
		}
	}
}

func TestAppendIndentRejects(t *testing.T) {
	for text, want := range map[string]struct {
		shown string
		at    int64 // -1: the text ends too early
	}{
		"":                              {"", -1},
		" ":                             {"", -1},
		`{"a":[1,"b`:                    {"{\n  \"a\": [\n    1,\n    \"b", -1},
		"12-":                           {"12", 2},
		"1 2":                           {"1", 2},
		"{} x":                          {"{}", 3},
		"[1,]":                          {"[\n  1,", 3},
		"[\"\x00\"]":                    {"[\n  \"", 2},
		strings.Repeat("[", MaxDepth+1): {"", MaxDepth},
	} {
		got, err := AppendIndent(nil, []byte(text), 1<<20)
		var syntax *SyntaxError
		switch {
		case want.at < 0 && !errors.Is(err, io.ErrUnexpectedEOF):
			t.Errorf("%q: error %v", text, err)
		case want.at >= 0 && (!errors.As(err, &syntax) || syntax.Offset != want.at):
			t.Errorf("%.20q: error %v, want one at %d", text, err, want.at)
		case want.at < MaxDepth && string(got) != want.shown:
			t.Errorf("%q becomes %q, want %q", text, got, want.shown)
		}
	}
}

func TestAppendIndentStops(t *testing.T) {
	text := []byte(`[` + strings.Repeat(`1,`, 1<<19) + `1]`)
	for _, limit := range []int{0, 1, 2, 3, 5, 1000} {
		got, err := AppendIndent([]byte("ab"), text, limit)
		if err != nil || len(got) != len("ab")+limit {
			t.Errorf("limit %d: %d bytes, error %v", limit, len(got), err)
		}
	}
}

// FuzzAppendIndent checks with encoding/json that an indented text is valid, and that it is equal to the original
// if white space is removed from both.
func FuzzAppendIndent(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text), 0)
		f.Add([]byte(text), 7)
	}
	f.Fuzz(func(t *testing.T, text []byte, limit int) {
		got, err := AppendIndent(nil, text, math.MaxInt32)
		if err == nil != json.Valid(text) && !tooDeep(err) {
			t.Fatalf("%q is valid: %v, but the error is %v", text, json.Valid(text), err)
		}
		if err == nil {
			var before, after bytes.Buffer
			if err := errors.Join(json.Compact(&before, text), json.Compact(&after, got)); err != nil || !bytes.Equal(before.Bytes(), after.Bytes()) {
				t.Fatalf("%q has become %q: %v", text, got, err)
			}
			if again, err := AppendIndent(nil, got, math.MaxInt32); err != nil || !bytes.Equal(again, got) {
				t.Fatalf("%q has become %q the second time: %v", got, again, err)
			}
		}
		limit = int(uint8(limit))
		if part, _ := AppendIndent(nil, text, limit); !bytes.Equal(part, got[:min(limit, len(got))]) {
			t.Fatalf("%q with a limit of %d has become %q, not the beginning of %q", text, limit, part, got)
		}
		if part, err := AppendIndent(nil, text[:len(text)/2], math.MaxInt32); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
			if !bytes.HasPrefix(bytes.TrimSpace(got), bytes.TrimSpace(part)) {
				t.Fatalf("half of %q has become %q, not the beginning of %q", text, part, got)
			}
		}
	})
}

// tooDeep reports whether an error means that a text is nested deeper than AppendIndent allows.
func tooDeep(err error) bool {
	return err != nil && strings.Contains(err.Error(), "nested deeper")
}
