//go:build !linux

package disktest

import "errors"

func mount(string, string) (func() error, error) { return nil, errors.ErrUnsupported }
