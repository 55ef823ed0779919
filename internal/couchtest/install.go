package couchtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// An install says where the parts of the server are.
type install struct {
	script  string // to be run by node
	modules string // the directory with node_modules
}

// installation returns the installed server. What npm installed is below a name
// from the lock file's digest, so that another lock file is another installation.
func installation() (install, error) {
	top, err := moduleRoot()
	if err != nil {
		return install{}, fmt.Errorf("find the CouchDB server: %w", err)
	}
	source := filepath.Join(top, "internal", "couchtest", "server")
	lock, err := os.ReadFile(filepath.Join(source, "package-lock.json"))
	if err != nil {
		return install{}, fmt.Errorf("find the CouchDB server: %w", err)
	}
	name := fmt.Sprintf("couchtest-%x", sha256.Sum256(lock))[:len("couchtest-")+12]
	found := install{script: filepath.Join(source, "server.js"), modules: filepath.Join(top, ".cache", name)}
	if _, err := os.Stat(filepath.Join(found.modules, "node_modules")); err != nil {
		return install{}, fmt.Errorf("%w: run \"make couchdb\"", err)
	}
	return found, nil
}

// moduleRoot returns the directory with go.mod, at or above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}
