package jsonl

import (
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink/internal/durable"
)

// OpenFaulty opens a sink that calls a function before each disk operation.
func OpenFaulty(path string, before func() error) (consumer.Sink, error) {
	return open(path, durable.FS{Before: func(string, string) error { return before() }})
}

// AppendBase64 appends b in base64.
func AppendBase64(dst, b []byte) []byte { return appendBase64(dst, b) }
