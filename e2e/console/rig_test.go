package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// bad is a page that does everything a page of the console must not do.
const bad = `<!DOCTYPE html>
<html>
<head><title>Bad</title><link rel="stylesheet" href="style.css"></head>
<body>
<script>alert(1)</script>
<script src="script.js"></script>
<p style="color: red">inline</p>
<p class="faint">faint</p>
<img src="http://127.0.0.1:1/image">
<p class="wide">wide</p>
<a href="/second" tabindex="2">second</a>
<a href="/first" tabindex="1">first</a>
<a href="/hidden" class="ringless">no ring</a>
<button></button>
</body>
</html>`

// TestRig: each check finds what is wrong with the page bad.
func TestRig(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; require-trusted-types-for 'script'")
		fmt.Fprint(w, bad)
	})
	mux.HandleFunc("/style.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css")
		fmt.Fprint(w, `.faint { color: #ccc } .wide { width: 5000px } .ringless:focus { outline: none }
			@media (prefers-color-scheme: dark) { .faint { color: #000 } }`)
	})
	mux.HandleFunc("/script.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(w, `console.error("logged"); setTimeout(() => { throw new Error("thrown") }); document.body.append(document.createElement("div"));
			try { document.querySelector("div").innerHTML = "<b>assigned</b>" } catch {}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	b := open(t, server.URL, phone)
	b.visit("/")
	expectFound := func(check string, found []string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(strings.Join(found, "\n"), w) {
				t.Errorf("%s does not find %q, but:\n  %s", check, w, strings.Join(found, "\n  "))
			}
		}
	}
	b.theme("light")
	expectFound("axe in light", b.accessibility(), "color-contrast: .faint", "button-name: button", "html-has-lang: html", "image-alt: img")
	expectFound("the colours in light", b.colours(), "color-contrast: .faint")
	b.theme("dark")
	if found := b.colours(); len(found) > 0 {
		t.Errorf("axe in dark finds:\n%s", strings.Join(found, "\n"))
	}
	expectFound("overflow", b.overflow(), "p.wide", "the page is 5")
	expectFound("keyboard", b.keyboard(), "after control", `a.ringless "no ring" shows no focus`)
	expectFound("findings", b.findings(),
		"issue ContentSecurityPolicyIssue", `"violatedDirective":"script-src-elem"`, `"violatedDirective":"style-src-attr"`, `"violatedDirective":"require-trusted-types-for"`,
		`console.error: "logged"`, "exception", "Error: thrown", "request to another origin: http://127.0.0.1:1/image")
	if found := b.findings(); len(found) > 0 {
		t.Errorf("found again: %q", found)
	}
}
