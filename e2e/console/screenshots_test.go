package console_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// maxShot is the height of the largest screenshot, in pixels.
const maxShot = 3000

// screenshot saves an image of the page, for a person to look at, if -screenshots is set.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	height := evaluate[float64](b, `scrollTo(0, 0), Math.max(innerHeight, document.documentElement.scrollHeight)`)
	b.keep(name, page.Viewport{Width: float64(b.width), Height: min(height, maxShot), Scale: 1})
}

// keep saves an image of a part of the page.
func (b *tab) keep(name string, part page.Viewport) {
	b.t.Helper()
	b.do("take a screenshot", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		yes := true
		shot, err := cdp.Call(ctx, target, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &yes, Clip: &part})
		if err != nil {
			return err
		}
		if err := os.MkdirAll(*screenshots, 0o777); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(*screenshots, name+".png"), shot.Data, 0o666)
	}))
}

// TestScreenshots opens the pages that the README shows, and saves images of them if -screenshots is set.
func TestScreenshots(t *testing.T) {
	s := newSite(t, nil)
	s.jobs.jobs = s.jobs.jobs[:len(s.jobs.jobs)-1] // the name of the last job is too long for the README
	b := s.open(t, desktop)
	for _, shot := range []struct{ name, theme, url, text string }{
		{"readme-light", "light", "/", "Jobs that fail"},
		{"readme-dark", "dark", "/feed?name=prices", "Newest entities"},
	} {
		b.theme(shot.theme)
		b.visit(shot.url)
		b.shows(shot.text)
		if *screenshots != "" {
			b.keep(shot.name, page.Viewport{Width: float64(desktop.width), Height: 760, Scale: 1.5})
		}
	}
	b.expect("findings", b.findings())
}
