// Package jsonscan reads JSON (RFC 8259) from a stream in bounded memory, without
// decoding it: values are returned as bytes.
package jsonscan
