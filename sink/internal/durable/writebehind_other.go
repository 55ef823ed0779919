//go:build !linux

package durable

import "os"

func startWriting(*os.File) {}
