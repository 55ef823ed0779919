package couchdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/couchtest"
)

// about matches requests for documents whose ids begin with "bad", alone or together with other
// documents.
func about(q *http.Request) bool {
	if q.Method != http.MethodPost {
		return strings.Contains(q.URL.Path, "/bad")
	}
	body, err := io.ReadAll(q.Body)
	q.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && strings.HasSuffix(q.URL.Path, "/_bulk_get") && bytes.Contains(body, []byte(`"id":"bad`))
}

// TestDocumentFailsForEver: the source never returns one of its documents. The others are
// published.
func TestDocumentFailsForEver(t *testing.T) {
	t.Parallel()
	inAnswer := func(instead string) couchtest.Fault {
		return couchtest.Edit(func(body []byte) []byte {
			return regexp.MustCompile(`\{"ok":\{"_id":"(bad)","_rev":"(.*?)".*?\}\}\}`).ReplaceAll(body, []byte(instead))
		})
	}
	for name, how := range map[string]couchtest.Fault{
		"error in the answer":            inAnswer(`{"error":{"id":"$1","rev":"$2","error":"unknown_error","reason":"badmatch"}}`),
		"no JSON in the answer":          inAnswer(`{"ok":{"_id":"$1","_rev":"$2",}}`),
		"another document in the answer": inAnswer(`{"ok":{"_id":"good","_rev":"$2"}}`),
		"nothing in the answer":          inAnswer(``),
		"internal server error":          couchtest.Refuse(http.StatusInternalServerError, "unknown_error", "badmatch"),
		"forbidden":                      couchtest.Refuse(http.StatusForbidden, "forbidden", "not for you"),
		"too large to be sent":           couchtest.Refuse(http.StatusRequestEntityTooLarge, "too_large", "the request entity is too large"),
		"gateway timeout":                couchtest.Refuse(http.StatusGatewayTimeout, "", ""),
		"connection breaks":              couchtest.Cut(1),
		"connection breaks late":         couchtest.Cut(300),
	} {
		for _, follow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", name, follow), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.options = Options{Revs: true}
				r.configure = func(c *Config) { c.Follow = follow }
				r.fill(0, 6)
				r.put("bad", fmt.Sprintf(`{"v":%q}`, strings.Repeat("v", 400)))
				r.fill(6, 12)
				r.fake.Inject(0, about, how)
				if follow {
					stop := r.started()
					r.await(12)
					r.fill(12, 13) // a document after the bad one
					r.await(13)
					if report, _ := stop(); report.Published != 13 || report.Quarantined != 1 {
						t.Errorf("report is %+v", report)
					}
				} else if report := r.run(); report.Published != 12 || report.Quarantined != 1 {
					t.Errorf("report is %+v", report)
				}
				if q := r.quarantined(); len(q) != 1 || !strings.HasPrefix(q["bad"], "source fails to send this document, but sends others: ") {
					t.Errorf("quarantine has %v", q)
				}
				r.configure = func(*Config) {}
				if report := r.run(); report.Rows != 0 {
					t.Errorf("then %+v", report)
				}
				r.check("bad")
				// When the source has been repaired, a retry succeeds.
				r.fake.Heal()
				b := r.open(r.store)
				defer b.Close()
				if report, err := b.Retry(t.Context()); err != nil || report.Published != 1 || report.Left != 0 {
					t.Errorf("retry: %+v, %v", report, err)
				}
				r.check()
			})
		}
	}
}

// TestSourceFailsForAll: if the source returns no documents at all, none are quarantined.
func TestSourceFailsForAll(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"failing": http.StatusInternalServerError, "forbidding": http.StatusForbidden, "away": http.StatusServiceUnavailable} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.options = Options{Revs: true}
			r.fill(0, 3)
			for _, path := range []string{"/_bulk_get", "/doc"} {
				r.fake.Inject(0, couchtest.On("", path), couchtest.Refuse(status, "broken", "for all"))
			}
			_, err := r.tryRun(r.store)
			if err == nil || !strings.Contains(err.Error(), "broken: for all") {
				t.Errorf("error is %v", err)
			}
			if q := r.quarantined(); len(q) != 0 || len(r.events()) != 0 {
				t.Errorf("quarantine has %v, the feed %q", q, r.pairs())
			}
			r.fake.Heal()
			r.run()
			r.check()
		})
	}
}

// TestTooManyRequests: a rate limit like Cloudant's puts no documents into quarantine.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	if ofDocument(&couchdb.Error{Status: http.StatusTooManyRequests}) {
		t.Error("429 is taken for an error of a document")
	}
	const text = "You've exceeded your current limit of 5 requests per second for query class. Please try later."
	r := newRig(t)
	r.options = Options{Revs: true}
	r.fill(0, 3)
	r.put("bad", `{}`)
	r.fake.Inject(0, about, couchtest.Edit(func(body []byte) []byte {
		return regexp.MustCompile(`\{"ok":\{"_id":"(bad)","_rev":"(.*?)".*?\}\}\}`).
			ReplaceAll(body, []byte(`{"error":{"id":"$1","rev":"$2","error":"too_many_requests","reason":"`+text+`"}}`))
	}))
	if report, err := r.tryRun(r.store); err == nil || !strings.Contains(err.Error(), "too_many_requests: "+text) || report.Quarantined != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	r.fake.Heal()
	r.run()
	r.check()
}

// TestTooManyRequestsForRows: after status 429, documents are not requested one by one.
func TestTooManyRequestsForRows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(0, 3)
	r.fake.Inject(6, couchtest.On("", "/_changes"), couchtest.Refuse(http.StatusTooManyRequests, "too_many_requests", "later"))
	r.run()
	r.check()
	for _, request := range r.fake.Requests() {
		if strings.Contains(request, "_bulk_get") {
			t.Error(request)
		}
	}
}

// TestAttachmentFailsForEver: the connection is always lost in the middle of one attachment.
func TestAttachmentFailsForEver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.options = Options{Revs: true, Attachments: Multipart}
	large := fmt.Sprintf(`{"_attachments":{"a.bin":{"content_type":"application/octet-stream","data":%q}}}`, strings.Repeat("AAAA", 3000))
	r.put("good", large)
	r.put("bad", large)
	r.fill(0, 3)
	r.fake.Inject(0, about, couchtest.Cut(5000))
	if report := r.run(); report.Published != 4 || report.Quarantined != 1 {
		t.Errorf("report is %+v", report)
	}
	r.check("bad")
}

// TestRevisionsFailForEver: the source never returns the revisions of one document.
func TestRevisionsFailForEver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.options = Options{Revs: true}
	r.fill(0, 3)
	r.put("bad", `{}`)
	r.between(func() { r.fake.Purge(r.url, "bad") })
	r.fake.Inject(0, couchtest.On(http.MethodGet, "/bad?"), couchtest.Refuse(http.StatusInternalServerError, "unknown_error", "badmatch"))
	if report := r.run(); report.Published != 3 || report.Quarantined != 1 {
		t.Errorf("report is %+v", report)
	}
	if reason := r.quarantined()["bad"]; !strings.Contains(reason, "badmatch") {
		t.Errorf("reason is %q", reason)
	}
}

// TestBriefOutage checks that nothing is quarantined because the source is briefly unavailable.
func TestBriefOutage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.options = Options{Revs: true}
	r.fill(0, 3)
	r.put("bad", `{}`)
	r.fake.Inject(bridge.Tries, about, couchtest.Refuse(http.StatusInternalServerError, "unknown_error", "badmatch"))
	if report := r.run(); report.Published != 4 || report.Quarantined != 0 {
		t.Errorf("report is %+v", report)
	}
	r.check()
}

// TestAttemptsOfDocuments: the client does not retry requests for documents, because the bridge does.
func TestAttemptsOfDocuments(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.options = Options{Revs: true}
	r.put("bad", `{}`)
	r.put("good", `{}`)
	r.fake.Inject(0, about, couchtest.Refuse(http.StatusInternalServerError, "unknown_error", "badmatch"))
	r.fake.Requests()
	r.run()
	asked := 0
	for _, request := range r.fake.Requests() {
		if strings.Contains(request, "_bulk_get") {
			asked++
		}
	}
	// Requests for both documents together, for each alone, for the bad one repeatedly, and for the
	// good one for comparison.
	if want := 1 + 2 + bridge.Tries + 1; asked != want {
		t.Errorf("requested documents %d times, want %d", asked, want)
	}
}

// TestRowsFailForEver: because of one document, the changes feed cannot be read with documents.
func TestRowsFailForEver(t *testing.T) {
	t.Parallel()
	inRow := func(w http.ResponseWriter, q *http.Request, healthy http.HandlerFunc) {
		if strings.Contains(q.URL.RawQuery, "feed=continuous") {
			healthy(w, q)
			return
		}
		answer := httptest.NewRecorder()
		healthy(answer, q)
		_, _ = w.Write(regexp.MustCompile(`"doc":\{"_id":"bad".*?\}`).ReplaceAll(answer.Body.Bytes(), []byte(`"doc":{"error":"unknown_error","reason":"badmatch"}`)))
	}
	for name, how := range map[string]couchtest.Fault{
		"server error": couchtest.Refuse(http.StatusInternalServerError, "unknown_error", "badmatch"),
		"cut":          couchtest.Cut(1),
		"error in row": inRow,
	} {
		for _, follow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", name, follow), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.configure = func(c *Config) { c.Follow = follow }
				r.fill(0, 3)
				r.put("bad", `{}`)
				r.fake.Inject(0, couchtest.On("", "include_docs=true"), how)
				if !follow {
					r.run()
				} else {
					stop := r.started()
					r.await(4)
					r.fill(3, 4)
					r.await(5)
					_, _ = stop()
				}
				if q := r.quarantined(); len(q) != 0 {
					t.Errorf("quarantine has %v", q)
				}
				r.check()
			})
		}
	}
}

// TestRowsFailForAWhile: after some rows that were read without their documents, the next rows are
// requested with their documents again, less often after each failure.
func TestRowsFailForAWhile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ failures, asked int }{
		"for a while": {failures: 4, asked: 3 + 2},  // again after 1,000 rows, for the rest
		"for ever":    {failures: 99, asked: 3 + 3}, // without success after 1,000 rows; there are not 2,000 more
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			docs := make([]string, 2500)
			for i := range docs {
				docs[i] = fmt.Sprintf(`{"_id":"doc%d"}`, i)
			}
			r.do(http.MethodPost, "/_bulk_docs", `{"docs":[`+strings.Join(docs, ",")+`]}`)
			r.fake.Inject(test.failures, couchtest.On("", "include_docs=true"), couchtest.Refuse(http.StatusServiceUnavailable, "", ""))
			r.fake.Requests()
			if report := r.run(); report.Published != 2500 || report.Rows != 2500 {
				t.Errorf("report is %+v", report)
			}
			asked := 0
			for _, request := range r.fake.Requests() {
				if strings.Contains(request, "include_docs=true") {
					asked++
				}
			}
			if asked != test.asked {
				t.Errorf("requested rows with documents %d times, want %d", asked, test.asked)
			}
		})
	}
}

// TestUnreachable: the source is unreachable at first.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		attempts int
		follow   bool
		away     int // requests until the source is reachable
		asked    int // requests until the bridge gives up; 0: it does not
		says     string
	}{
		"at once":        {away: 99, asked: 1},
		"some attempts":  {attempts: 3, away: 99, asked: 3, says: "gives_up=\"after 3 attempts, in about 1.5s\""},
		"one attempt":    {attempts: 1, follow: true, away: 99, asked: 1},
		"follow":         {follow: true, away: 20, says: "gives_up=never"},
		"without end":    {attempts: -1, away: 20, says: "gives_up=never"},
		"later attempts": {attempts: 3, away: 2, says: "attempt=2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.fill(0, 3)
			var asked atomic.Int64
			var log bytes.Buffer
			r.configure = func(c *Config) {
				c.Follow, c.Attempts = test.follow, test.attempts
				c.Log = slog.New(slog.NewTextHandler(&log, nil))
				var err error
				c.Source, err = couchdb.Open(couchdb.Config{URL: r.url, HTTP: &http.Client{Transport: roundTripper(func(q *http.Request) (*http.Response, error) {
					if asked.Add(1) <= int64(test.away) {
						return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
					}
					return http.DefaultTransport.RoundTrip(q)
				})}})
				if err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if test.asked == 0 && test.follow {
				stop := r.started()
				r.await(3)
				_, _ = stop()
			} else {
				_, err = r.tryRun(r.store)
			}
			if test.asked > 0 {
				if err == nil || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), r.url) || asked.Load() != int64(test.asked) {
					t.Errorf("%d requests, %v", asked.Load(), err)
				}
			} else if n := len(r.events()); n != 3 {
				t.Errorf("%d documents, %v", n, err)
			}
			if !strings.Contains(log.String(), test.says) || test.says == "" && log.Len() > 0 {
				t.Errorf("log is\n%s", &log)
			}
		})
	}
}

// TestUnavailableForLong checks that memory does not grow while the source is unavailable.
func TestUnavailableForLong(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(0, 3)
	var asked atomic.Int64
	r.configure = func(c *Config) {
		c.Follow = true
		var err error
		c.Source, err = couchdb.Open(couchdb.Config{URL: r.url, HTTP: &http.Client{Transport: roundTripper(func(q *http.Request) (*http.Response, error) {
			if n := asked.Add(1); n < 100 {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
			}
			return http.DefaultTransport.RoundTrip(q)
		})}})
		if err != nil {
			t.Fatal(err)
		}
	}
	b := r.open(r.store)
	defer b.Close()
	s, err := b.newRun(t.Context(), bridge.NewID())
	if err != nil {
		t.Fatal(err)
	}
	b.log.begin(bridge.NewID(), time.Now(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Do(ctx, s) }()
	r.await(3)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.reader.open.Range(func(batch, _ any) bool {
		t.Errorf("batch was not closed: %+v", batch)
		return true
	})
}

// TestNeverAnswers: a closed connection is not the end of the changes.
func TestNeverAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(0, 3)
	r.configure = func(c *Config) { c.Attempts = 2 }
	r.fake.Inject(0, couchtest.On("", "/_changes"), func(http.ResponseWriter, *http.Request, http.HandlerFunc) { panic(http.ErrAbortHandler) })
	if report, err := r.tryRun(r.store); !couchdb.Retryable(err) {
		t.Errorf("%+v, %v", report, err)
	}
}
