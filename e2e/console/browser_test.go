// Package console tests how the web console looks and works in Chromium: in light and dark, with and without
// script, with the keyboard alone, and on a phone.
package console_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/feedctl/feedctl/internal/installed"
)

var screenshots = flag.String("screenshots", "", "take screenshots of all pages and keep them in this `directory`")

// browser is the chromedp context of the browser, which all tests share.
var browser context.Context

// axe is the source of axe-core.
var axe string

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := withBrowser(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withBrowser(run func() int) (code int, err error) {
	packages := installed.Packages{
		Name: "axe", Source: "e2e/console/axe", Lock: "package-lock.json", Has: "node_modules/axe-core/axe.min.js", Target: "axe",
	}
	_, dir, err := packages.Find()
	if err != nil {
		return 0, fmt.Errorf("find axe-core: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, packages.Has))
	if err != nil {
		return 0, fmt.Errorf("read axe-core: %w", err)
	}
	axe = string(text)

	path, err := exec.LookPath("chromium")
	if err != nil {
		return 0, fmt.Errorf("find the browser: %w: run \"scripts/need chromium\"", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.DisableGPU)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // otherwise, Chromium refuses to run as root
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	// Events that the library does not know are not errors.
	started, _ := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}))
	if err := chromedp.Do(started); err != nil {
		return 0, fmt.Errorf("start %s: %w", path, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(started, 10*time.Second)
		defer cancel()
		err = errors.Join(err, chromedp.Cancel(ctx))
	}()
	browser = started
	return run(), nil
}
