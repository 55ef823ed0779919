// Package console writes text to terminals and logs. It escapes the text, since part of it comes from
// servers and feeds.
package console

import (
	"io"
	"sync"
)

// EraseLine moves to the start of the line and clears it.
const EraseLine = "\r\x1b[K"

// A Console is standard error, shared by log lines and one progress line that
// stays below them. Both are escaped; see [Escape].
type Console struct {
	mu   sync.Mutex
	w    io.Writer
	line string // the progress line on the screen
}

// New returns a console that writes to w.
func New(w io.Writer) *Console { return &Console{w: w} }

// Write writes whole lines above the progress line.
func (c *Console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.line != "" {
		if _, err := io.WriteString(c.w, EraseLine); err != nil {
			return 0, err
		}
	}
	if _, err := Escape(c.w).Write(p); err != nil {
		return 0, err
	}
	_, err := io.WriteString(c.w, c.line)
	return len(p), err
}

// Show replaces the progress line; an empty line removes it. Show ignores errors, since progress is
// only a courtesy.
func (c *Console) Show(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if line == "" && c.line == "" {
		return
	}
	c.line = line
	_, _ = io.WriteString(c.w, EraseLine+line)
}

// Clear removes the progress line.
func (c *Console) Clear() { c.Show("") }
