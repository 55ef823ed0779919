// Package interop contains only a test, which runs feedctl against a second implementation
// of the wire format. See README.md.
package interop
