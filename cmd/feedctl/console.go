package main

import (
	"io"
	"sync"
)

// eraseLine moves to the start of the line and clears it.
const eraseLine = "\r\x1b[K"

// A console is standard error, shared by log lines and one progress line that
// stays below them. Both are escaped; see [escaper].
type console struct {
	mu   sync.Mutex
	w    io.Writer
	line string // the progress line on the screen
}

// Write writes whole lines above the progress line.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.line != "" {
		if _, err := io.WriteString(c.w, eraseLine); err != nil {
			return 0, err
		}
	}
	if _, err := (&escaper{w: c.w}).Write(p); err != nil {
		return 0, err
	}
	_, err := io.WriteString(c.w, c.line)
	return len(p), err
}

// show replaces the progress line; an empty one removes it. What cannot be
// shown is lost: progress is a courtesy.
func (c *console) show(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if line == "" && c.line == "" {
		return
	}
	c.line = line
	_, _ = io.WriteString(c.w, eraseLine+line)
}

func (c *console) clear() { c.show("") }
