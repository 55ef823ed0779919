//go:build unix && !linux

package file

import "errors"

func exchange(string, string) error { return errors.ErrUnsupported }
