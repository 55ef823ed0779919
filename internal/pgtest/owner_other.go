//go:build !unix

package pgtest

import "syscall"

// credential returns nil. It matters only if the process runs as root, which only Unix has.
func credential(_, _ uint32) *syscall.SysProcAttr { return nil }
