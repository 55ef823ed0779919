package couchtest_test

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/internal/couchtest"
)

// An exchange is a recorded request, with the response of Apache CouchDB 3.5.2.
type exchange struct {
	line                  string // method and path
	accept, content, body string
	status                string
	want                  []string // Content-Type and the lines of the body, quoted
}

// readExchanges reads testdata/couchdb-3.5.txt. In the file, "== " begins a request, "> " begins a quoted
// line of its body, and any other quoted line belongs to the response. SEQ stands for a sequence, and
// BOUNDARY with a number stands for a boundary.
func readExchanges(t *testing.T) (list []*exchange) {
	text, err := os.ReadFile("testdata/couchdb-3.5.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if request, ok := strings.CutPrefix(line, "== "); ok {
			list = append(list, &exchange{line: request})
			continue
		}
		x := list[len(list)-1]
		name, value, _ := strings.Cut(line, " ")
		switch name {
		case "accept:":
			x.accept = value
		case "content:":
			x.content = value
		case "body:":
			x.content, x.body = "application/json", value
		case "status:":
			x.status = value
		case ">":
			s, err := strconv.Unquote(value)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			x.body += s
		case "type:":
			x.want = append(x.want, value)
		default:
			x.want = append(x.want, line)
		}
	}
	return list
}

// TestAsCouchDB compares the fake's responses byte by byte with those of CouchDB, except for parts that
// differ from one run to the next.
func TestAsCouchDB(t *testing.T) {
	fake := couchtest.NewFake(t)
	db := fake.NewDB(t)
	for _, x := range readExchanges(t) {
		method, path, _ := strings.Cut(x.line, " ")
		url := db + strings.ReplaceAll(path, `"`, "%22")
		if other, ok := strings.CutPrefix(path, "/.."); ok {
			url = fake.URL() + other
		}
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(x.body))
		if err != nil {
			t.Fatal(err)
		}
		if x.content != "" {
			r.Header.Set("Content-Type", x.content)
		}
		accept := "*/*"
		if x.accept != "" {
			accept = x.accept
		}
		r.Header.Set("Accept", accept)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := strconv.Itoa(response.StatusCode); got != x.status {
			t.Errorf("%s: status %s, want %s: %s", x.line, got, x.status, body)
		}
		limited := strings.Contains(path, "limit=")
		got := comparable(answerLines(response.Header.Get("Content-Type"), string(body)), limited)
		if diff := cmp.Diff(comparable(x.want, limited), got); diff != "" {
			t.Errorf("%s: %s", x.line, diff)
		}
	}
}

var (
	sequence = regexp.MustCompile(`"\d+-g1AAAA[\w-]*"`)
	boundary = regexp.MustCompile(`boundary="?([^"\r\n]*)`)
)

// answerLines returns a response as lines in the form of the file.
func answerLines(contentType, body string) []string {
	text := contentType + "\n" + body
	n := 0
	for _, match := range boundary.FindAllStringSubmatch(text, -1) {
		if strings.Contains(text, match[1]) {
			text = strings.ReplaceAll(text, match[1], "BOUNDARY"+strconv.Itoa(n))
			n++
		}
	}
	text = sequence.ReplaceAllString(text, "SEQ")
	contentType, body, _ = strings.Cut(text, "\n")
	lines := []string{contentType}
	for line := range strings.SplitAfterSeq(body, "\n") {
		if line != "" {
			lines = append(lines, strconv.QuoteToASCII(line))
		}
	}
	return lines
}

// comparable sorts those lines that are rows, since the order of rows is not fixed. If the feed has a limit,
// it removes these lines, since any rows may be in such a feed.
func comparable(lines []string, limited bool) (out []string) {
	var rows []string
	for _, line := range lines {
		line, err := requote(line)
		if err != nil {
			line = err.Error()
		}
		seq, row, isRow := strings.Cut(line, `,\"id\":`)
		if !isRow || !strings.HasPrefix(seq, `"{\"seq\":`) {
			out = append(out, line)
			continue
		}
		out = append(out, seq)
		if !limited {
			rows = append(rows, strings.TrimSuffix(strings.TrimSuffix(row, `,\r\n"`), `\n"`))
		}
	}
	slices.Sort(rows)
	return append(out, rows...)
}

// requote returns a quoted line with the escapes that strconv would use.
func requote(line string) (string, error) {
	if !strings.HasPrefix(line, `"`) {
		return line, nil
	}
	s, err := strconv.Unquote(line)
	return strconv.QuoteToASCII(s), err
}
