//go:build !linux

package doctor

import "context"

// Directory examines the file system of a store in a directory. It is implemented on Linux only.
func Directory(context.Context, string) []Finding { return nil }
