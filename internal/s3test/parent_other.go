//go:build !linux

package s3test

import "os/exec"

// startWithParent starts a command. Only on Linux does it end if this process is killed.
func startWithParent(cmd *exec.Cmd, ended chan<- struct{}) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait() // an error is normal: the command may have been killed
		close(ended)
	}()
	return nil
}
