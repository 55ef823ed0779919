package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func seeds(f *testing.F) {
	for _, s := range []string{
		``, ` `, `{}`, `[]`, `[ ]`, `{ }`, `null`, `true `, `tru`, `nul`, ` "a" `, `"`, `"\`, `"\u12`, `"\u12aF"`, `"\x"`, "\"\x1f\"", "\"\xff\"",
		`0`, `-0`, `01`, `-`, `1.`, `1.5e`, `1.5E+10`, `12345678901234567890.123456789`, `+1`, `.5`, `1 2`,
		`{"a" : 1 , "b":[1, 2,{"c":null}]}`, `{"a":1,}`, `[1,]`, `[,1]`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1]`, `[1}`, `[1`, `{"a":1`, `]`, `}`, `,`, `{"a":1 "b":2}`, `[1 2]`,
		"\ufeff{}", "[\v1]", "{\"a\":\"Grüße, 世界 and a long tail of plain text\"}", `{"a":"x"}x`, "\x00", "1\x00",
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth),
		strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1),
		strings.Repeat(`{"a":[`, 100) + strings.Repeat("]}", 100),
	} {
		f.Add([]byte(s))
	}
}

// FuzzAppendCompact compares the result with that of encoding/json, which replaces invalid UTF-8
// and allows deeper nesting.
func FuzzAppendCompact(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		got, ok := AppendCompact([]byte("before"), src)
		if !bytes.HasPrefix(got, []byte("before")) {
			t.Fatalf("dst became %q", got)
		}
		want := bytes.NewBufferString("before")
		wantOK := json.Compact(want, src) == nil && utf8.Valid(src) && depth(src) <= MaxDepth
		if ok != wantOK {
			t.Fatalf("%q: accepted %v, want %v", src, ok, wantOK)
		}
		if ok && !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%q became\n%s, want\n%s", src, got, want)
		}
		if !ok && string(got) != "before" {
			t.Fatalf("%q was refused but left %q", src, got)
		}
	})
}

func depth(src []byte) int {
	deepest, now := 0, 0
	for d := json.NewDecoder(bytes.NewReader(src)); ; {
		token, err := d.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('['), json.Delim('{'):
			now++
			deepest = max(deepest, now)
		case json.Delim(']'), json.Delim('}'):
			now--
		}
	}
}

// FuzzAppendString: encoding/json reads the result as the original string.
func FuzzAppendString(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		var back string
		if utf8.Valid(text) {
			if err := json.Unmarshal(AppendString(nil, text), &back); err != nil || back != string(text) {
				t.Fatalf("%q was read back as %q: %v", text, back, err)
			}
		}
		line := AppendText(nil, string(text))
		if bytes.IndexByte(line, '\n') >= 0 || !utf8.Valid(line) || !json.Valid(line) {
			t.Fatalf("%q became %q", text, line)
		}
	})
}

func BenchmarkAppendCompact(b *testing.B) {
	record := []byte(`{"id":"user-000123","name":"Ada Lovelace","active":true,"score":12345.678,"tags":["a","b","c"],"address":{"street":"12 St James's Square","city":"London","zip":"SW1Y"},"text":"` + strings.Repeat("The quick brown fox. ", 38) + `"}`)
	for _, c := range []struct {
		name string
		doc  []byte
	}{{"1KB", record}, {"numbers", []byte("[" + strings.Repeat("123,4.5,", 128) + "0]")}} {
		b.Run(c.name, func(b *testing.B) {
			dst := make([]byte, 0, 4096)
			b.SetBytes(int64(len(c.doc)))
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = AppendCompact(dst[:0], c.doc)
			}
		})
		b.Run("Valid/"+c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.doc)))
			b.ReportAllocs()
			for b.Loop() {
				if !Valid(c.doc) {
					b.Fatal("not valid")
				}
			}
		})
		b.Run("encoding/json/"+c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.doc)))
			for b.Loop() {
				json.Valid(c.doc)
			}
		})
	}
}
