package disktest

import "golang.org/x/sys/unix"

func mount(dir, size string) (unmount func() error, err error) {
	return func() error { return unix.Unmount(dir, 0) }, unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
}
