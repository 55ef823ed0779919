package page_test

import (
	"errors"
	"mime"
	"strings"
	"testing"
	"unicode"

	"github.com/feedctl/feedctl/page"
)

func TestBoundary(t *testing.T) {
	for _, test := range []struct {
		contentType string
		want        string
		err         error
	}{
		{`multipart/mixed; boundary="b"`, "b", nil},
		{`multipart/mixed; boundary=b`, "b", nil},
		{`multipart/related;boundary=b`, "b", nil},
		{`Multipart/X-Other ; Boundary = b ; a=c`, "b", nil},
		{`multipart/related; type="a;boundary=x"; boundary=b`, "b", nil},
		{`multipart/related; type="a\";boundary=x"; boundary=b`, "b", nil},
		{`multipart/mixed; boundary="a b:c=d;e"; charset=utf-8`, "a b:c=d;e", nil},
		{`multipart/mixed; boundary="a\"\\b"`, `a"\b`, nil},
		{`multipart/mixed; boundary=a:b=c/d?e`, "a:b=c/d?e", nil},
		{`multipart/mixed; boundary='b'`, "'b'", nil},
		{`multipart/mixed; boundary=“rdm-bny”`, "rdm-bny", nil},
		{`multipart/mixed; boundary=„b“; a=b`, "b", nil},
		{`multipart/mixed; boundary=“b`, "b", nil},
		{`multipart/mixed; boundary="b`, "b", nil},
		{`multipart/mixed; boundary="b\`, `b\`, nil},
		{`multipart/mixed; boundary="b" garbage; a`, "b", nil},
		{`multipart/mixed; boundary="b  "`, "b", nil},
		{`multipart/mixed; boundary=b;`, "b", nil},
		{`multipart/mixed;; ;boundary=b`, "b", nil},
		{`multipart/mixed; flag; boundary=b`, "b", nil},
		{`multipart/mixed; boundary=b; boundary="b"`, "b", nil},
		{`multipart/mixed; boundary=` + strings.Repeat("b", 256), strings.Repeat("b", 256), nil},

		{`multipart/mixed`, "", page.ErrBoundary},
		{`multipart/mixed; boundary`, "", page.ErrBoundary},
		{`multipart/mixed; boundary=`, "", page.ErrBoundary},
		{`multipart/mixed; boundary=""`, "", page.ErrBoundary},
		{`multipart/mixed; boundary="  "`, "", page.ErrBoundary},
		{`multipart/mixed; xboundary=b`, "", page.ErrBoundary},
		{`multipart/mixed; a=boundary=b`, "", page.ErrBoundary},
		{`multipart/mixed; boundary=b; boundary=c`, "", page.ErrBoundary},
		{"multipart/mixed; boundary=\"a\tb\"", "", page.ErrBoundary},
		{"multipart/mixed; boundary=a\x7fb", "", page.ErrBoundary},
		{`multipart/mixed; boundary=` + strings.Repeat("b", 257), "", page.ErrBoundary},

		{``, "", page.ErrNotMultipart},
		{`multipart`, "", page.ErrNotMultipart},
		{`multipart/; boundary=b`, "", page.ErrNotMultipart},
		{`application/json; boundary=b`, "", page.ErrNotMultipart},
		{`xmultipart/mixed; boundary=b`, "", page.ErrNotMultipart},
		{`text/html; a="multipart/mixed; boundary=b"`, "", page.ErrNotMultipart},
	} {
		got, err := page.Boundary(test.contentType)
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("Boundary(%q) = %q, %v; want %q, %v", test.contentType, got, err, test.want, test.err)
		}
	}
}

func TestNewBoundary(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		b := page.NewBoundary()
		// 26 characters of base32 have 130 bits.
		if len(b) < 26 || strings.Trim(b, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" || seen[b] {
			t.Fatalf("boundary %q", b)
		}
		seen[b] = true
		if got, err := page.Boundary(page.ContentType(b)); got != b || err != nil {
			t.Fatalf("%q is read as %q, %v", page.ContentType(b), got, err)
		}
	}
}

func TestOccurs(t *testing.T) {
	for body, want := range map[string]bool{
		"": false, "B": false, "-B": false, "--B": true, "--Bx": true, "x--B--": true, "\r\n--B": true, "--b": false, "- -B": false,
	} {
		if got := page.Occurs("B", []byte(body)); got != want {
			t.Errorf("Occurs(B, %q) = %v", body, got)
		}
	}
}

// FuzzBoundary: Boundary never panics, and agrees with package mime where that finds a
// valid boundary, but for these intended differences:
//
//   - white space at the end of a boundary is removed (RFC 2046 forbids it, and
//     white space after a delimiter is not part of it);
//   - boundaries with control characters or of more than 256 bytes are rejected;
//   - extended and split parameters (RFC 2231: boundary*, boundary*0) are not
//     supported, since no multipart writer uses them;
//   - a backslash in a quoted string always escapes; package mime keeps a
//     backslash before a character that needs no escape, for the sake of file names;
//   - where package mime rejects the value, this package usually does not.
//
// Control characters are not compared: they cannot occur in a field value (RFC 9110,
// section 5.5).
func FuzzBoundary(f *testing.F) {
	f.Add(`multipart/mixed; boundary="b"`)
	f.Add(`multipart/related; type="a;b"; boundary=b`)
	f.Add(`multipart/mixed; boundary=“b”`)
	f.Add(`text/html; charset="multipart/x; boundary=b"`)
	f.Fuzz(func(t *testing.T, contentType string) {
		got, err := page.Boundary(contentType)
		if (got == "") != (err != nil) {
			t.Fatalf("Boundary(%q) = %q, %v", contentType, got, err)
		}
		mediaType, params, mimeErr := mime.ParseMediaType(contentType)
		isControl := func(r rune) bool { return r != '\t' && unicode.IsControl(r) }
		if mimeErr != nil || strings.ContainsAny(contentType, `*\`) || strings.ContainsFunc(contentType, isControl) {
			return
		}
		kind, subtype, _ := strings.Cut(mediaType, "/")
		if kind != "multipart" || subtype == "" {
			if !errors.Is(err, page.ErrNotMultipart) {
				t.Errorf("Boundary(%q) = %q, %v; media type is %s", contentType, got, err, mediaType)
			}
			return
		}
		want := strings.TrimRightFunc(params["boundary"], unicode.IsSpace)
		if len(want) > 256 || strings.ContainsFunc(want, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			want = ""
		}
		if got != want {
			t.Errorf("Boundary(%q) = %q, %v; package mime finds %q", contentType, got, err, want)
		}
	})
}
