package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
)

// An owner runs programs that refuse to run as root. The zero owner is this
// process's user.
type owner struct {
	other    bool // not the user of this process
	uid, gid uint32
}

// unprivileged returns this user or, for root, a user without privileges.
func unprivileged() (*owner, error) {
	if os.Geteuid() != 0 {
		return &owner{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		return &owner{other: true, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL cannot run as root, and there is no user postgres or nobody")
}

// tempDir creates a directory that only the owner (and root) can enter.
func (o *owner) tempDir() (string, error) {
	dir, err := os.MkdirTemp("", "pgtest-")
	if err != nil || !o.other {
		return dir, err
	}
	if err := os.Chown(dir, int(o.uid), int(o.gid)); err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}

// workspace makes a directory, and starts a script that cleans it up, with the path of the directory and
// args as arguments. The script waits for the end of its standard input, which it reaches when the closer is closed,
// or when this process ends in any way.
func (o *owner) workspace(script string, args ...string) (dir string, caretaker io.Closer, err error) {
	dir, err = o.tempDir()
	if err != nil {
		return "", nil, err
	}
	caretaker, err = o.background(dir, "sh", append([]string{"-c", script, "sh", dir}, args...)...)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, caretaker, nil
}

// writeFile writes a file that the owner can read.
func (o *owner) writeFile(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil || !o.other {
		return err
	}
	return os.Chown(path, int(o.uid), int(o.gid))
}

func (o *owner) command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	if o.other {
		cmd.SysProcAttr = credential(o.uid, o.gid)
	}
	return cmd
}

func (o *owner) run(dir, name string, args ...string) error {
	cmd := o.command(dir, name, args...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, bytes.TrimSpace(output.Bytes()))
	}
	return nil
}

// background starts a command that exits when its standard input ends. Close makes the command exit and waits for it;
// the command also exits when this process ends.
func (o *owner) background(dir, name string, args ...string) (io.Closer, error) {
	cmd := o.command(dir, name, args...)
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	return &background{cmd, input}, nil
}

type background struct {
	cmd   *exec.Cmd
	input io.Closer
}

func (b *background) Close() error { return errors.Join(b.input.Close(), b.cmd.Wait()) }
