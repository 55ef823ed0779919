//go:build !linux

package doctor

import "context"

// Directory examines the file system below a store that is a directory. It knows how
// on Linux only.
func Directory(context.Context, string) []Finding { return nil }
