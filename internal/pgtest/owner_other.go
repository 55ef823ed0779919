//go:build !unix

package pgtest

import "syscall"

// credential returns nil: only root uses it, a user that exists only on Unix.
func credential(_, _ uint32) *syscall.SysProcAttr { return nil }
