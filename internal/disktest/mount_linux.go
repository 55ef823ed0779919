package disktest

import "golang.org/x/sys/unix"

func mount(dir, size string) (unmount func() error, err error) {
	// The unmount is lazy, since a process that another test is starting has all files of this process
	// open until it executes its program.
	return func() error { return unix.Unmount(dir, unix.MNT_DETACH) }, unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
}
