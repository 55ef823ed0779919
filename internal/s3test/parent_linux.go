package s3test

import (
	"os/exec"
	"runtime"
	"syscall"
)

// startWithParent starts a command that the kernel kills when this process ends, in
// whatever way. More precisely, the kernel kills it when the thread that started it ends.
// Therefore, this thread waits until the command ends.
func startWithParent(cmd *exec.Cmd, ended chan<- struct{}) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // an error is normal: the command may have been killed
			close(ended)
		}
	}()
	return <-started
}
