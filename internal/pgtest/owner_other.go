//go:build !unix

package pgtest

import "syscall"

// credential is for root, which only Unix has.
func credential(_, _ uint32) *syscall.SysProcAttr { return nil }
