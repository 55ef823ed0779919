package page_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/feedctl/feedctl/page"
)

func Example() {
	boundary := page.NewBoundary()
	var buf bytes.Buffer
	w := page.NewWriter(&buf, boundary)
	for _, body := range []string{"Hello", "World"} {
		h := page.Header{{Name: []byte("Content-Type"), Value: []byte("text/plain")}}
		if err := w.WritePart(h, []byte(body)); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}

	r := page.NewReader(&buf, boundary, page.ReaderOptions{})
	for part, err := range r.Parts() {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d: %s: %s\n", part.Index, part.Header.Get("content-type"), part.Body)
	}
	// Output:
	// 0: text/plain: Hello
	// 1: text/plain: World
}

// This example reads large bodies as streams. A truncated page causes an error.
func ExampleReader_Parts() {
	boundary, err := page.Boundary(`multipart/mixed; boundary="example"`)
	if err != nil {
		fmt.Println(err)
		return
	}
	src := strings.NewReader("--example\r\n\r\nshort\r\n--example\r\n\r\nnot so short\r\n--example\r\n\r\ncu")
	r := page.NewReader(src, boundary, page.ReaderOptions{MaxWhole: 10})
	for part, err := range r.Parts() {
		switch {
		case err != nil:
			fmt.Println(err)
		case part.Stream != nil:
			fmt.Print("stream: ")
			io.Copy(os.Stdout, part.Stream)
			fmt.Println()
		default:
			fmt.Printf("whole: %s\n", part.Body)
		}
	}
	// Output:
	// whole: short
	// stream: not so short
	// read page: part 2, offset 62: page ends without its closing delimiter
}

func ExampleAppendPart() {
	data, err := page.AppendPart(nil, "example", nil, []byte("Hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	data = page.AppendClose(data, "example")
	fmt.Print(strings.ReplaceAll(string(data), "\r\n", "\n"))
	// Output:
	// --example
	// Content-Length: 5
	//
	// Hello
	// --example--
}
