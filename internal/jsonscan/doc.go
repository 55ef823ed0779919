// Package jsonscan reads JSON (RFC 8259) without decoding it: values are returned as bytes. A
// [Reader] reads a stream in bounded memory. The package also appends JSON to byte slices without
// allocating. No other package of the module has a JSON tokenizer.
package jsonscan
