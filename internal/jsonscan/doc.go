// Package jsonscan reads JSON (RFC 8259) from a stream, in memory that does not
// depend on the size of what it reads, and without decoding it: values are
// handed out as the bytes that they are.
package jsonscan
