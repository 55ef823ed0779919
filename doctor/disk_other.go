//go:build !linux

package doctor

import (
	"context"
	"errors"
)

// Directory examines the file system of a store in a directory. It is implemented on Linux only.
func Directory(context.Context, string) []Finding { return nil }

// Space returns how many bytes of a directory's file system are free for ordinary users, and how many there are in all.
// It is implemented on Linux only.
func Space(string) (free, all int64, err error) { return 0, 0, errors.ErrUnsupported }
