package roundtrip

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/memnet"
	"github.com/feedctl/feedctl/internal/origins"
)

// served runs a test with the client of a server, in fake time.
func served(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, c *Client, net *memnet.Net)) {
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New(t, handler)
		c, err := New(Client{Origin: "http://server:80", Password: "p/w +", Limits: new(origins.Limiter), HTTP: net.Client()})
		if err != nil {
			t.Fatal(err)
		}
		test(t, c, net)
	})
}

// send sends a request and returns the body of the response.
func send(t *testing.T, c *Client, method, path string, body io.Reader, o Options) (string, error) {
	r, err := http.NewRequestWithContext(t.Context(), method, "http://server"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("user", c.Password)
	resp, err := c.Send(r, method+" http://server"+path, o)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return string(data), err
}

// TestRedirects: only redirects to the same origin are followed.
func TestRedirects(t *testing.T) {
	served(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/here":
			http.Redirect(w, r, "http://SERVER:80/there", http.StatusTemporaryRedirect)
		case "/elsewhere":
			http.Redirect(w, r, "http://server:81/there", http.StatusTemporaryRedirect)
		case "/circle":
			http.Redirect(w, r, "/circle", http.StatusTemporaryRedirect)
		default:
			_, _ = io.Copy(w, r.Body)
		}
	}, func(t *testing.T, c *Client, net *memnet.Net) {
		if got, err := send(t, c, http.MethodPut, "/here", strings.NewReader("sent"), Options{}); got != "sent" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		net.Requests()
		for path, want := range map[string]error{"/elsewhere": errOrigin, "/circle": errRedirects} {
			if _, err := send(t, c, http.MethodPut, path, strings.NewReader("sent"), Options{}); !errors.Is(err, want) || !Permanent(0, err) || Retryable(0, err) {
				t.Errorf("%s: %v", path, err)
			}
		}
		if sent := len(net.Requests()); sent != 1+10 {
			t.Errorf("%d requests", sent)
		}
	})
}

// slow is a body that takes 50 s for each byte, and for its end.
type slow struct{ io.Reader }

func (s slow) Read(b []byte) (int, error) {
	time.Sleep(50 * time.Second)
	return s.Reader.Read(b[:1])
}

// TestTimeouts: a response must begin within a minute of the end of the request, and must not pause
// for a minute after that.
func TestTimeouts(t *testing.T) {
	served(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/late":
			time.Sleep(59 * time.Second)
			return
		case "/stops":
			_, _ = io.WriteString(w, "begin")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}, func(t *testing.T, c *Client, _ *memnet.Net) {
		for path, want := range map[string]struct {
			body, err string
			took      time.Duration
			late      int32
		}{
			"/late":   {"", "", 59 * time.Second, 1},
			"/silent": {"", "PUT http://server/silent: no response within the time limit", time.Minute, 1},
			"/stops":  {"begin", "PUT http://server/stops: too little data within the time limit", time.Minute, 0},
		} {
			for _, upload := range []time.Duration{0, 150 * time.Second} {
				var body io.Reader
				if upload > 0 {
					body = slow{strings.NewReader("12")}
				}
				var late atomic.Int32
				begun := time.Now()
				got, err := send(t, c, http.MethodPut, path, body, Options{Late: func() { late.Add(1) }})
				if took := time.Since(begun) - upload; got != want.body || took != want.took {
					t.Errorf("%s: %q after %v and the upload", path, got, took)
				}
				if failed := want.err != ""; Retryable(0, err) != failed || Permanent(0, err) || failed && err.Error() != want.err {
					t.Errorf("%s: %v", path, err)
				}
				if upload == 0 && late.Load() != want.late {
					t.Errorf("%s: Late was called %d times", path, late.Load())
				}
			}
		}
	})
}

// TestRepeat: a request is tried Attempts times, unless the error or the context forbids that.
func TestRepeat(t *testing.T) {
	served(t, nil, func(t *testing.T, c *Client, _ *memnet.Net) {
		failed := &Error{"GET http://server/", io.ErrUnexpectedEOF}
		for may, want := range map[bool]int{true: 6, false: 1} {
			tries := 0
			err := c.Repeat(t.Context(), func(error) bool { return may }, func() error {
				tries++
				return failed
			})
			if tries != want || err != error(failed) {
				t.Errorf("%d tries, %v", tries, err)
			}
		}
	})
}

func TestStatus(t *testing.T) {
	for status, want := range map[int]struct{ ok, retryable bool }{
		200: {ok: true}, 204: {ok: true}, 304: {ok: true}, 302: {}, 400: {}, 404: {}, 409: {},
		408: {retryable: true}, 425: {retryable: true}, 429: {retryable: true}, 500: {retryable: true}, 503: {retryable: true},
	} {
		if OK(status) != want.ok {
			t.Errorf("OK(%d) is %v", status, !want.ok)
		}
		if !want.ok && (Retryable(status, io.EOF) != want.retryable || Permanent(status, io.EOF) == want.retryable) {
			t.Errorf("status %d is retryable: %v, want %v", status, !want.retryable, want.retryable)
		}
	}
}

func TestHide(t *testing.T) {
	c := Client{Password: "p/w +"}
	if got := c.Hide("p/w + p%2Fw+%2B p%2Fw%20+ p"); got != "*** *** *** p" {
		t.Error(got)
	}
	if got := new(Client).Hide("text"); got != "text" {
		t.Error(got)
	}
}

// TestResponse: JSON returns an error if a response is cut off, and reports a complete response that is not JSON
// as malformed; Failure returns an error if the body is cut off, unless the status is enough.
func TestResponse(t *testing.T) {
	errMalformed := errors.New("malformed")
	large := append(bytes.Repeat([]byte{' '}, maxJSON), '1')
	for name, c := range map[string]struct {
		body io.Reader
		want error
	}{
		"whole":     {strings.NewReader("1"), nil},
		"not JSON":  {strings.NewReader("<p>"), errMalformed},
		"empty":     {strings.NewReader(""), errMalformed},
		"too large": {bytes.NewReader(large), errMalformed},
		"cut":       {io.MultiReader(strings.NewReader("1"), brokenReader{}), io.ErrUnexpectedEOF},
	} {
		n := 0
		err := JSON(c.body, &n, func(error) error { return errMalformed })
		if err != c.want || (n == 1) != (err == nil) {
			t.Errorf("%s: %d, %v, want %v", name, n, err, c.want)
		}
	}
	for _, c := range []struct {
		status int
		body   io.Reader
		want   string
		err    error
	}{
		{404, strings.NewReader("12345"), "123", nil},
		{404, io.MultiReader(strings.NewReader("1"), brokenReader{}), "", io.ErrUnexpectedEOF},
		{503, io.MultiReader(strings.NewReader("1"), brokenReader{}), "", nil},
	} {
		got, err := Failure(&http.Response{StatusCode: c.status, Body: io.NopCloser(c.body)}, 3)
		if string(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%d: %q, %v, want %q, %v", c.status, got, err, c.want, c.err)
		}
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
