package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
)

// evil contains everything that controls a terminal: escape sequences with ESC and with its C1
// equivalent, carriage returns, and characters that change the text direction.
const evil = "\x1b[2J\u009b31m\rfeedctl: all is well\nfeedctl: \u202etxet\u2066\u2028\x7f"

// evilJSON is evil as a JSON string.
const evilJSON = `\u001b[2J\u009b31m\rfeedctl: all is well\nfeedctl: \u202etxet\u2066\u2028\u007f`

// hostile responds to requests with the string evil in everything that a client may show.
func hostile(w http.ResponseWriter, r *http.Request) {
	self := fmt.Sprintf("<http://%s%s>; rel=self", r.Host, r.URL.Path)
	switch name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]; name {
	case "host":
		w.Header().Set("Location", "http://\u202eexample\u009b31m.invalid/feeds/a")
		w.WriteHeader(http.StatusFound)
	case "links":
		w.Header().Set("Content-Type", "multipart/mixed; boundary=x\u202e\u009b")
		w.Header().Set("Link", "<http://\u202e\u009b31m.invalid/>; rel=prev, "+self)
	case "type":
		w.Header().Set("Content-Type", "text/\u202e\u009b31m; a=\"\u202e\"")
		_, _ = w.Write([]byte(evil))
	case "entities":
		w.Header().Set("Content-Type", "multipart/mixed; boundary=xyz")
		w.Header().Set("Last-Modified", "Thu, 05 Oct 2023 03:00:11 GMT")
		w.Header().Set("Link", self)
		for n := range 2 {
			fmt.Fprintf(w, "--xyz\r\nLast-Modified: Thu, 05 Oct 2023 03:00:1%d GMT\r\nContent-ID: <%d\u202e\u009b31m@example>\r\n"+
				"Operation-Type: http-equiv=PUT\r\nContent-Location: %%1B%%5B2J%%C2%%9B%%E2%%80%%AE\r\n"+
				"Content-Type: text/\u202e\r\nX-Evil: \u202e\u009b\r\nContent-Length: %d\r\n\r\n%s\r\n", n, n, len(evil), evil)
		}
		fmt.Fprint(w, "--xyz--\r\n")
	case "index":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"%s","createdAt":"2023-10-05T03:00:11Z","pages":["http://%s"],"%s":1}`, evilJSON, evilJSON, evilJSON)
	case "bucket":
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<Error><Code>AccessDenied</Code><Message>\u202e\u009b31m\nfeedctl: all is well</Message></Error>")
	default:
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Server", "\u202e\u009b31m")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"title":"%s","detail":"%s","error":"%[1]s","reason":"%[1]s"}`, evilJSON, evilJSON)
	}
}

// TestHostileServer runs every command that talks to a server against a hostile one.
func TestHostileServer(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(hostile))
	t.Cleanup(web.Close)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "eu-central-1")
	dir := t.TempDir()
	one := filepath.Join(dir, "one.ndjson")
	if err := os.WriteFile(one, []byte("{\"id\":1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := []string{
		"publish a " + one + " --to " + web.URL + " --retries 1",
		"bridge couchdb " + web.URL + "/db a --store file:" + dir + "/bridge --retries 1 --index " + dir + "/index",
		"consume file:" + dir + "/bridge#a --into couchdb:" + web.URL + "/db",
		"snapshot list --store s3://bucket?endpoint=" + web.URL,
		"inspect --index " + web.URL + "/snapshots/index",
		"verify --index " + web.URL + "/snapshots/index",
		"consume " + web.URL + "/feeds/problem --from snapshot:" + web.URL + "/snapshots/index --into jsonl:" + dir + "/index --retries 1",
	}
	for _, feed := range []string{"problem", "host", "links", "type", "entities"} {
		url := web.URL + "/feeds/" + feed
		lines = append(lines,
			"consume "+url+" --retries 1 --into jsonl:"+filepath.Join(dir, feed),
			"consume "+url+" --retries 1 --into sqlite:"+filepath.Join(dir, feed+".db"),
			"consume "+url+" --retries 1 --into dir:"+filepath.Join(dir, feed+".d"),
			"tail "+url+" --retries 1 --from beginning --follow=false",
			"inspect "+url+" --retries 1",
			"verify "+url,
		)
	}
	lines = append(lines, "doctor "+web.URL+"/feeds/problem --wait 1s")
	for _, line := range lines {
		for _, options := range []string{"", " --json", " --log-format json --log-level debug", " --log-level debug"} {
			var stdout, stderr strings.Builder
			run(t.Context(), strings.Fields(line+options), app.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Screen: true})
			for name, text := range map[string]string{"stdout": stdout.String(), "stderr": stderr.String()} {
				if at := obeyed(text); at >= 0 {
					t.Errorf("%s%s: %s has a character that controls a terminal: ...%q", line, options, name, text[max(0, at-60):min(len(text), at+20)])
				}
				if strings.Contains("\n"+text, "\nfeedctl: all") || strings.Contains("\n"+text, "\nfeedctl: \\u202e") {
					t.Errorf("%s%s: %s has lines that are not feedctl's: %q", line, options, name, text)
				}
			}
		}
	}
}

// obeyed returns the index of the first character that controls a terminal, or -1.
func obeyed(text string) int {
	for i, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) ||
			r == '\u2028' || r == '\u2029' || r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd") {
			return i
		}
	}
	return -1
}

// TestEntitiesOnTerminal: entities written to a file or a pipe are unchanged; entities on a
// terminal are escaped.
func TestEntitiesOnTerminal(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(hostile))
	t.Cleanup(web.Close)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, screen := range []bool{false, true} {
		for _, args := range [][]string{
			{"consume", web.URL + "/feeds/entities", "--into", "-"},
			{"tail", web.URL + "/feeds/entities", "--from", "beginning", "--follow=false", "--json"},
		} {
			var stdout, stderr strings.Builder
			code := run(t.Context(), args, app.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Screen: screen})
			if code != exit.OK || strings.Contains(stdout.String(), "\u202e") == screen {
				t.Errorf("%s, terminal %t: exit status %d, %q, %q", args[0], screen, code, &stdout, &stderr)
			}
			if screen && obeyed(stdout.String()) >= 0 {
				t.Errorf("%s: the terminal gets %q", args[0], &stdout)
			}
		}
	}
}
