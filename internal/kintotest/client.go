package kintotest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A Client is a process that runs a third-party client of Kinto, for one collection.
type Client struct {
	t      testing.TB
	name   string
	stdin  io.Writer
	output *bufio.Reader
}

// StartJS starts kinto.js, which keeps a copy of the collection. The methods that can be called are
// those of its class Collection, with one argument.
func StartJS(t testing.TB, collection string) *Client {
	t.Helper()
	source, modules, err := client.Find()
	if err != nil {
		t.Fatalf("find kinto.js: %v", err)
	}
	return startClient(t, collection, "node", filepath.Join(source, "kintojs.js"), modules)
}

// StartPython starts kinto-http.py. The methods that can be called are those of its class Client,
// with named arguments.
func StartPython(t testing.TB, collection string) *Client {
	t.Helper()
	python, server, err := installation()
	if err != nil {
		t.Fatal(err)
	}
	return startClient(t, collection, python, filepath.Join(filepath.Dir(server), "..", "client", "kintohttp.py"))
}

// startClient starts a client that ends with the test.
func startClient(t testing.TB, collection, program string, args ...string) *Client {
	t.Helper()
	root, rest, _ := strings.Cut(collection, "/buckets/")
	bucket, name, _ := strings.Cut(rest, "/collections/")
	cmd := exec.Command(program, append(args, root, bucket, name, User, Password)...)
	stderr := new(bytes.Buffer)
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v: %s", program, err, stderr)
		}
	})
	return &Client{t, filepath.Base(program), stdin, bufio.NewReader(stdout)}
}

// Call calls a method, and decodes what it returns into result, unless result is nil.
func (c *Client) Call(method string, arguments, result any) {
	c.t.Helper()
	line, err := json.Marshal([]any{method, arguments})
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.stdin.Write(append(line, '\n')); err != nil {
		c.t.Fatalf("%s: %v", c.name, err)
	}
	answer, err := c.output.ReadBytes('\n')
	if err != nil {
		c.t.Fatalf("%s has ended: %v", c.name, err)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal(answer, result); err != nil {
		c.t.Fatalf("%s: %s: %v", c.name, answer, err)
	}
}
