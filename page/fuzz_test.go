package page_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/page"
)

// FuzzRoundTrip writes parts with each method and reads them back. The writer may reject only
// invalid parts.
func FuzzRoundTrip(f *testing.F) {
	f.Add("B", "Content-Type", "text/plain", []byte("hello"), []byte(""), uint64(1))
	f.Add("a:b", "--a", "b\tc", []byte("\r\n--a:b\r\n"), []byte("\r\n"), uint64(2))
	f.Add("B", "content-length", "7", []byte("--"), []byte("\r"), uint64(3))
	f.Fuzz(func(t *testing.T, boundary, name, value string, body1, body2 []byte, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		h := page.Header{field("First", "1"), field(name, value)}
		bodies := [][]byte{body1, body2, append(bytes.Clone(body2), body1...)}

		var appended []byte
		var streamed bytes.Buffer
		w := page.NewWriter(&streamed, boundary)
		var err error
		for i, body := range bodies {
			var partErr error
			appended, partErr = page.AppendPart(appended, boundary, h, body)
			err = errors.Join(err, partErr)
			if i%2 == 0 {
				w.WritePart(h, body)
			} else {
				w.WriteStream(h, int64(len(body)), &chunkReader{data: body, err: io.EOF, rand: rnd, max: 5})
			}
		}
		appended = page.AppendClose(appended, boundary)
		if closeErr := w.Close(); (closeErr == nil) != (err == nil) {
			t.Fatalf("appended with %v, written with %v", err, closeErr)
		}
		if err != nil {
			checkRefusal(t, err, boundary, name, value, bodies)
			return
		}
		if !bytes.Equal(appended, streamed.Bytes()) {
			t.Fatalf("appended %q, written %q", appended, &streamed)
		}

		var want []string
		for _, body := range bodies {
			part := "First: 1\n" + name + ": " + strings.Trim(value, " \t") + "\n"
			if strings.EqualFold(name, "Content-Length") {
				part = "First: 1\n"
			}
			want = append(want, part+string(body))
		}
		for _, o := range []page.ReaderOptions{{}, {Strict: true}, {MaxWhole: 1, Strict: true}} {
			src := &chunkReader{data: appended, err: io.EOF, rand: rnd, max: 1 + rnd.IntN(50)}
			parts, err := readAll(t, page.NewReader(src, boundary, o))
			if err != nil {
				t.Fatalf("page %q: %v", appended, err)
			}
			var got []string
			for _, p := range parts {
				fields := p.Header[:len(p.Header)-1] // without Content-Length
				got = append(got, strings.Join(fields, "\n")+"\n"+p.Body)
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("written (-), read (+):\n%s", diff)
			}
		}
	})
}

var (
	legalBoundary = regexp.MustCompile(`^[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]$`)
	legalName     = regexp.MustCompile("^[!#$%&'*+\\-.^_`|~0-9A-Za-z]+$")
)

func checkRefusal(t *testing.T, err error, boundary, name, value string, bodies [][]byte) {
	switch {
	case !legalBoundary.MatchString(boundary):
	case !legalName.MatchString(name) || strings.ContainsAny(value, "\r\n\x00"):
	case strings.HasPrefix(name+": "+value, "--"+boundary):
	case bytes.Contains(bytes.Join(bodies, []byte("\n")), []byte("--"+boundary)):
	case bytes.Contains(bodies[2], []byte("--"+boundary)):
	default:
		t.Fatalf("rejected for no reason: %v", err)
	}
}

// FuzzMultipart compares the reader with mime/multipart on pages with only one kind of line
// break. If one of them can read a page, the other reads the same parts, with these intended
// exceptions:
//
//   - Content-Length: mime/multipart ignores it. This reader skips to the
//     delimiter after the given number of bytes, so an earlier delimiter is
//     part of the body.
//     (The test renames the field.)
//   - A page whose first delimiter is the closing delimiter has no parts: mime/multipart
//     returns io.EOF, this reader an error. If that delimiter ends with LF,
//     mime/multipart skips it, since it still expects CRLF, and continues.
//   - A page that ends within the header of a part is truncated. mime/multipart
//     returns io.EOF if it has nothing, or only whole lines, of that header.
//   - A line that begins with a delimiter and continues with other text after
//     the white space or the closing "--" is a line of the body. mime/multipart
//     ends the body there and then fails. The same holds for more than 1 KiB of
//     white space, and for a delimiter without a line break at the end of the
//     page that is not the closing one; mime/multipart still returns the part
//     before such a delimiter.
//   - A CR that is not part of a line break, and NUL, are rejected in headers,
//     since they cannot be written. Names must be tokens. mime/multipart accepts
//     some of these, and skips fields without a name.
//   - Other control characters in values are kept, as RFC 9110, section 5.5,
//     allows. mime/multipart rejects them.
//   - A continuation line of only white space adds nothing to a value.
//     mime/multipart adds a space.
//   - The limits differ for headers of more than 64 KiB, and for preamble lines
//     and padding of more than 4 KiB.
//   - On a page with both kinds of line breaks, mime/multipart recognizes only
//     the kind that ends the first delimiter line. This reader accepts both.
//   - Neither decodes quoted-printable (NextRawPart does not either).
func FuzzMultipart(f *testing.F) {
	for _, data := range seedPages() {
		f.Add(data, true)
		f.Add(data, false)
	}
	f.Fuzz(func(t *testing.T, data []byte, crlf bool) {
		data = uniform(data, crlf)
		if diverges(data) {
			return
		}
		ours, ourErr := readAll(t, page.NewReader(bytes.NewReader(data), "B", page.ReaderOptions{}))
		theirs, theirErr := readMultipart(data)
		if errors.Is(ourErr, page.ErrNoParts) && (!crlf || theirErr == nil && len(theirs) == 0) {
			return
		}
		if errors.Is(ourErr, page.ErrTruncated) && theirErr == nil && !closingLine.Match(data) {
			return
		}
		if errors.Is(ourErr, page.ErrMalformedHeader) || errors.Is(ourErr, page.ErrHeaderTooLarge) {
			return // this reader accepts some of these headers; FuzzReader tests that
		}
		if theirErr != nil && strings.Contains(theirErr.Error(), "malformed MIME header") && control.Match(data) {
			return
		}
		if (ourErr == nil) != (theirErr == nil) {
			t.Fatalf("page %q\nours:   %+v, %v\ntheirs: %q, %v", data, ours, ourErr, theirs, theirErr)
		}
		if ourErr != nil {
			return
		}
		var got []string
		for _, p := range ours {
			got = append(got, strings.Join(sortedFields(p.Header), "\n")+"\n\n"+p.Body)
		}
		if diff := gocmp.Diff(theirs, got); diff != "" {
			t.Fatalf("page %q\ntheirs (-), ours (+):\n%s", data, diff)
		}
	})
}

var (
	closingLine       = regexp.MustCompile(`(?m)^--B--[ \t]*\r?$`)
	control           = regexp.MustCompile(`[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]`)
	contentLengthName = regexp.MustCompile(`(?i)content-length`)
	strayDelimiter    = regexp.MustCompile(`(?m)^--B(--|[ \t])[^\r\n]*[^ \t\r\n]|^--B[ \t]*\r?\z|[^\n]{1000}`)
)

// uniform converts all line breaks of data to one kind, and hides Content-Length.
func uniform(data []byte, crlf bool) []byte {
	data = bytes.ReplaceAll(data, []byte("\r"), nil)
	data = contentLengthName.ReplaceAll(data, []byte("Content-Extent"))
	if crlf {
		data = bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
	}
	return data
}

// diverges reports whether the two readers read data differently on purpose, in a way that
// cannot be told from the results.
func diverges(data []byte) bool { return strayDelimiter.Match(data) }

func readMultipart(data []byte) (parts []string, err error) {
	r := multipart.NewReader(bytes.NewReader(data), "B")
	for {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return parts, nil
		}
		if err != nil {
			return parts, err
		}
		body, err := io.ReadAll(p)
		if err != nil {
			return parts, err
		}
		var fields []string
		for name, values := range p.Header {
			for _, v := range values {
				fields = append(fields, name+": "+v)
			}
		}
		parts = append(parts, strings.Join(sortedFields(fields), "\n")+"\n\n"+string(body))
	}
}

// sortedFields returns fields in a canonical order and form, independent of the case of
// names and the white space in values.
func sortedFields(fields []string) []string {
	var out []string
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ":")
		out = append(out, strings.ToLower(name)+": "+strings.Join(strings.Fields(value), " "))
	}
	slices.Sort(out)
	return out
}
