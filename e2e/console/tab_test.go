package console_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tabTime limits how long a tab is used: a test that hangs fails after that time, and says what it was
// waiting for.
const tabTime = 3 * time.Minute

// A view says how a page is viewed.
type view struct {
	width, height int64
	noScript      bool
}

var (
	desktop = view{width: 1280, height: 800}
	phone   = view{width: 390, height: 844}
)

func (v view) withoutScript() view { v.noScript = true; return v }

// A tab is a tab of the browser. It records what no page may do: report a violation of its policy or another
// issue, log an error, throw, or send a request to another origin.
type tab struct {
	t      *testing.T
	ctx    context.Context
	origin string // scheme, host and port
	width  int64  // of the window

	mu         sync.Mutex
	complaints []string
	statuses   map[string]int64 // statuses of documents, by URL
}

// open opens a tab for the pages of an origin, without credentials or history.
func open(t *testing.T, origin string, v view) *tab {
	t.Helper()
	b := &tab{t: t, origin: origin, statuses: make(map[string]int64)}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.listen))
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	ctx, cancel = context.WithTimeout(ctx, tabTime)
	t.Cleanup(cancel)
	b.ctx = ctx
	b.do("watch the page",
		call(audits.Enable, cdp.Empty{}), call(log.Enable, cdp.Empty{}), call(network.Enable, network.EnableParams{}),
		call(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}),
		call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: v.noScript}))
	b.resize(v.width, v.height)
	return b
}

// call returns an action that sends a command of the DevTools protocol and ignores its result.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, command, params)
		return err
	})
}

// do carries out actions. If one of them fails, so does the test, with a message that begins with the given
// description.
func (b *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// visit opens a page, by its path and query, and waits until it is loaded.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.do("open "+path, chromedp.Navigate(b.origin+path))
}

// resize sets the size of the window. A narrow window is shown as on a phone.
func (b *tab) resize(width, height int64) {
	b.t.Helper()
	b.width = width
	mobile := width < 600
	b.do("set the size of the window", call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: mobile,
	}))
}

// theme sets the colour scheme that the reader prefers: light or dark.
func (b *tab) theme(name string) {
	b.t.Helper()
	b.do("set the theme", call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}))
}

// evaluate returns the value of a JavaScript expression. It works even in tabs without script, unless the
// expression is a promise.
func evaluate[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise, chromedp.EvalAsValue))
	if err != nil {
		b.t.Fatalf("evaluate %.80q: %v", expression, err)
	}
	return value
}

// wait waits until an expression is true. The tab must have script.
func (b *tab) wait(expression string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingMutation(), chromedp.WithPollingTimeout(15*time.Second))); err != nil {
		b.t.Fatalf("wait for %s: %v\nthe page is:\n%s", expression, err, b.text())
	}
}

// text returns the text of the page, as a reader sees it.
func (b *tab) text() string { return evaluate[string](b, `document.body.innerText`) }

// follow carries out actions that lead to another page, and waits until it is loaded.
func (b *tab) follow(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if _, err := chromedp.RunResponse(b.ctx, steps...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// tabulate presses Tab.
func (b *tab) tabulate() {
	b.t.Helper()
	b.do("press Tab", call(input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Key: "Tab", Code: "Tab", WindowsVirtualKeyCode: 9}))
}

// listen is called for each event of the tab, in order.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	complain := func(format string, args ...any) { b.complaints = append(b.complaints, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *audits.EventIssueAdded:
		details, _ := json.Marshal(e.Issue.Details)
		complain("issue %s: %s", e.Issue.Code, details)
	case *log.EventEntryAdded:
		if _, ok := b.statuses[e.Entry.URL]; ok && e.Entry.Source == log.EntrySourceNetwork {
			break // the status of a page is checked by expectStatus
		}
		complain("log: %s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *runtime.EventExceptionThrown:
		d := e.ExceptionDetails
		complain("exception at %s:%d: %s", d.URL, d.LineNumber+1, cmp.Or(description(d.Exception), d.Text))
	case *runtime.EventConsoleAPICalled:
		var text []string
		for _, arg := range e.Args {
			text = append(text, cmp.Or(description(arg), string(arg.Value)))
		}
		complain("console.%s: %s", e.Type, strings.Join(text, " "))
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme+"://"+u.Host != b.origin {
			complain("request to another origin: %.120s", e.Request.URL)
		}
	case *network.EventResponseReceived:
		if e.Type == network.ResourceTypeDocument {
			b.statuses[e.Response.URL] = e.Response.Status
		}
	}
}

func description(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	return o.Description
}

// findings returns what the tab has recorded since the last call.
func (b *tab) findings() []string {
	evaluate[int](b, `0`) // by the time this returns, all events that the page has caused so far have arrived
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.complaints
	b.complaints = nil
	slices.Sort(found)
	return slices.Compact(found)
}
