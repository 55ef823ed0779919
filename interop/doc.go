// Package interop has no code of its own: its test runs feedctl against a
// second implementation of the wire format. See README.md.
package interop
