package pgtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	superuser = "postgres"
	logName   = "log"
)

// A cluster is a data directory and the server that runs on it.
type cluster struct {
	dir       string // holds the data, the log and the socket
	pgctl     string
	owner     *owner
	caretaker io.Closer
}

// cleanUp is the script that [owner.workspace] starts for a cluster: it stops the server and removes the directory.
const cleanUp = `trap '' INT TERM HUP; cat >/dev/null; "$2" stop -s -D "$1/data" -m immediate; rm -rf "$1"`

func newCluster(settings []string) (_ *cluster, err error) {
	template, err := initialized()
	if err != nil {
		return nil, err
	}
	pgctl, err := program("pg_ctl", "postgresql")
	if err != nil {
		return nil, err
	}
	who, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, caretaker, err := who.workspace(cleanUp, pgctl)
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, pgctl: pgctl, owner: who, caretaker: caretaker}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	data := filepath.Join(dir, "data")
	if err := who.run(dir, "cp", "-R", "-p", template.data, data); err != nil {
		return nil, err
	}
	if err := c.configure(append(settings, "unix_socket_directories='"+dir+"'")); err != nil {
		return nil, err
	}
	return c, c.start()
}

func (c *cluster) configure(settings []string) error {
	f, err := os.OpenFile(filepath.Join(c.dir, "data", "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(settings, "\n") + "\n")
	return errors.Join(err, f.Close())
}

// start starts the server and waits until it responds.
func (c *cluster) start() error { return c.control("start", "-l", filepath.Join(c.dir, logName)) }

func (c *cluster) control(args ...string) error {
	args = append([]string{"-s", "-w", "-t", "120", "-D", filepath.Join(c.dir, "data")}, args...)
	if err := c.owner.run(c.dir, c.pgctl, args...); err != nil {
		text, _ := os.ReadFile(filepath.Join(c.dir, logName)) // may not exist yet
		return fmt.Errorf("%w\n%s", err, text[max(0, len(text)-4096):])
	}
	return nil
}

func (c *cluster) close() error { return c.caretaker.Close() }

// program returns the path of a program of PostgreSQL. Debian installs the programs of the server outside the PATH.
func program(name, debianPackage string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.Reverse(dirs) // the newest version first: all versions have two digits
	for _, dir := range append(dirs, "/usr/sbin") {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: run \"scripts/need %s=%s\"", name, name, debianPackage)
}
