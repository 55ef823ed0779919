// Package installed finds the programs and packages that the Makefile installs for tests.
package installed

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Packages describes the packages that a lock file names. The name of their directory contains the digest
// of the lock file, so they are installed again if the lock file changes.
type Packages struct {
	Name   string // name of the packages' directory, without the digest
	Source string // directory of the lock file, relative to the module's root
	Lock   string // the lock file
	Has    string // a file that exists in a complete installation
	Target string // the target in the Makefile that installs the packages
}

// Find returns the directory of the lock file and the directory of the packages.
func (p Packages) Find() (source, dir string, err error) {
	top, err := root()
	if err != nil {
		return "", "", err
	}
	source = filepath.Join(top, filepath.FromSlash(p.Source))
	text, err := os.ReadFile(filepath.Join(source, p.Lock))
	if err != nil {
		return "", "", err
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(text))
	dir, err = inCache(p.Name+"-"+digest[:12], p.Has, p.Target)
	return source, dir, err
}

// Tool returns the path of a program that the Makefile installs.
func Tool(name, target string) (string, error) {
	return inCache(filepath.Join("bin", name), "", target)
}

// Previous returns the path of feedctl, built from the commit that scripts/previous-state names.
func Previous() (string, error) {
	top, err := root()
	if err != nil {
		return "", err
	}
	commit, err := os.ReadFile(filepath.Join(top, "scripts", "previous-state"))
	if err != nil {
		return "", err
	}
	if len(commit) < 12 {
		return "", fmt.Errorf("scripts/previous-state has %q, which is not a commit", commit)
	}
	return Tool("previous-"+string(commit[:12]), "previous")
}

// inCache returns the path of something that the Makefile installs. It returns an error unless the given
// file exists below that path.
func inCache(name, has, target string) (string, error) {
	top, err := root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(top, ".cache", name)
	if _, err := os.Stat(filepath.Join(path, has)); err != nil {
		return "", fmt.Errorf("%w: run \"make %s\"", err, target)
	}
	return path, nil
}

// root returns the directory with go.mod, at or above the working directory.
func root() (string, error) {
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
