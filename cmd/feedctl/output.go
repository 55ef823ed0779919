package main

import (
	"io"

	"github.com/feedctl/feedctl/internal/console"
)

// An output is standard output. It keeps the first error of writing to it: cobra does
// not tell whether a help text could be written.
type output struct {
	w   io.Writer
	err error
}

func newOutput(w io.Writer) *output { return &output{w: console.Escape(w)} }

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}
